"""A kill or a power cut at any moment of packing and of removal from packs: each text is loose or in one pack."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from retentive import NotFound
from retentive.errors import StoreFull
from retentive.storage.sealed.keys import add_key
from support.damage import codes, look, sql
from support.places import SERVERS
from support.profiles import LONG, sized, some
from support.targets import url_of

from . import ext4, injector
from .client import FaultServer
from .injector import KILLS
from .packer import COUNT, EDITED, MEMORY, OTHER, OTHERS, REDACTED, STEPS, at, text_of, write

MOMENTS = sized(quick=3, long=40, full=200)  # of each step
ON_SERVERS = sized(quick=1, long=4, full=200)
STEPS_HERE = (
    list(product(["sqlite", "directory", "sealed sqlite"], STEPS))
    if LONG
    else [
        ("sqlite", "sweep"),
        ("sqlite", "redact"),
        ("directory", "edit"),
        ("directory", "prune"),
        ("directory", "erase"),
    ]
)
CUTS_HERE = list(product(["sqlite", "directory"], STEPS)) if LONG else [("sqlite", "sweep"), ("directory", "redact")]
FREE_KB = (0, 60, 120, 240, 480, 2_000)
RECOVERY = {"job:external", "job:recovery"}
FEW = 20  # edits that do not pack a memory

pytestmark = pytest.mark.skipif(injector.why_not() is not None, reason=str(injector.why_not()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultServer]:
    library = injector.build(tmp_path_factory.mktemp("library"))
    with FaultServer(library, "faults.process.packer") as running:
        yield running


def located(kind: str, directory: Path, *, in_years: bool = False) -> AbstractContextManager[Any]:
    return at(**asked_for(kind, directory), in_years=in_years)


def asked_for(kind: str, directory: Path) -> dict[str, Any]:
    """Return the URL of a location, and the file with its key, which is beside the directory."""
    keys = str(directory.parent / "keys") if kind.startswith("sealed ") else None
    return {"url": url_of(kind.removeprefix("sealed "), directory), "keys": keys}


def prepare(kind: str, directory: Path, step: str, key: str = "default") -> None:
    """Make a store with a memory of many versions, which are packed unless the step is to pack them."""
    directory.mkdir(exist_ok=True)
    if not (directory.parent / "keys").exists():
        add_key(directory.parent / "keys")
    for start in range(0, COUNT, FEW):
        with located(kind, directory) as place:
            write(place.store(key), MEMORY, start, start + FEW)
    with located(kind, directory) as place:
        store = place.store(key)
        write(store, OTHER, 0, OTHERS)
        if step != "sweep":
            store.sweep()


def problems(kind: str, directory: Path, step: str, key: str = "default") -> list[str]:
    """Return what is wrong after a crash: in the next process, and after the step was done again."""
    found = []
    for again in (False, True):
        with located(kind, directory, in_years=again and step == "prune") as place:
            store = place.store(key)
            if again and step == "erase":
                for memory_id in {version.memory_id for version in store.versions(MEMORY)}:
                    with suppress(NotFound):  # the erasure of another memory has completed this one
                        store.history.erase(memory_id=memory_id)
            elif again:
                STEPS["sweep" if step == "edit" else step](store)
            texts = {path: texts_at(store, path) for path in (MEMORY, OTHER)}
        wrong = [path for path in texts if not fits(path, texts, step, again)]
        found += [f"again: {again}, {path}: {told(texts[path])}" for path in wrong]
    keys = directory.parent / "keys" if kind.startswith("sealed") else None
    bare = kind.removeprefix("sealed ")
    found += sorted(codes(look(url_of(bare, directory), keys=keys)))
    if bare != "s3" and sql(url_of(bare, directory), "SELECT id FROM versions WHERE text <> '' AND pack IS NOT NULL"):
        found.append("a text is loose and in a pack")
    return found


def texts_at(store: Any, path: str) -> list[str | None]:
    """Return the texts of the versions of a memory, oldest first, except those that a recovery of files has added."""
    memory = next((version.memory_id for version in store.versions(path)), "")
    versions = [version for version in store.versions(memory_id=memory) if str(version.actor) not in RECOVERY]
    return [store.history.show(version.id)[1] for version in reversed(versions)]


def fits(path: str, texts: dict[str, list[str | None]], step: str, again: bool) -> bool:
    """Return whether the versions of a memory are those before the step, or those after it, or some of both."""
    some, count = texts[path], COUNT if path == MEMORY else OTHERS
    every: list[str | None] = [text_of(path, number) for number in range(count + EDITED)]
    if step == "prune":
        first = count - len(some)
        return (first == count - 10 if again else first <= count - 10) and some == every[first:count]
    if path == OTHER or step == "sweep":
        return some == every[:count]
    if step == "edit":
        return count + EDITED - 2 <= len(some) <= count + EDITED and some == every[: len(some)]
    if step == "erase":
        return some == [] or (not again and some in (every[:count], [*every[:count], None]))
    blank = [*every[:REDACTED], None, *every[REDACTED + 1 : count]]
    return some == blank or (not again and some == every[:count])


def told(texts: list[str | None]) -> str:
    return str([None if text is None else text.partition(".\n")[0].rpartition(" ")[2] for text in texts])


@pytest.mark.parametrize(("kind", "step"), STEPS_HERE)
def test_a_kill_at_any_call_leaves_every_text(server: FaultServer, tmp_path: Path, kind: str, step: str) -> None:
    prepare(kind, tmp_path / "prepared", step)
    asked = {**asked_for(kind, tmp_path / "killed"), "step": step, "directory": str(tmp_path / "killed")}
    bad, rng = [], random.Random(f"{kind} {step}")
    for number, fault in [(0, "count"), *moments(server, asked, tmp_path, rng, MOMENTS)]:
        renew(tmp_path)
        answer = server.ask({**asked, "number": number, "fault": fault})
        assert (answer.get("raised"), answer["hung"]) == (None, False)
        wrong = problems(kind, tmp_path / "killed", step)
        bad += [f"{fault} at call {number}: {each}" for each in wrong]
    assert bad == []


def moments(
    server: FaultServer, asked: dict[str, Any], directory: Path, rng: random.Random, most: int
) -> list[tuple[int, str]]:
    """Return calls at which a step is killed, and whether before or after the call."""
    renew(directory)
    calls = server.ask(asked)["calls"]
    assert calls > 10
    every = [(number, fault) for number in range(1, calls + 1) for fault in KILLS]
    return rng.sample(every, min(most, len(every)))


def renew(directory: Path) -> None:
    shutil.rmtree(directory / "killed", ignore_errors=True)
    shutil.copytree(directory / "prepared", directory / "killed")


@pytest.mark.skipif(ext4.why_not() is not None, reason=str(ext4.why_not()))
@pytest.mark.parametrize(("kind", "step"), CUTS_HERE)
def test_a_power_cut_at_any_call_leaves_every_text(server: FaultServer, tmp_path: Path, kind: str, step: str) -> None:
    rng, bad = random.Random(f"{kind} {step}"), []
    with ext4.disk(tmp_path) as hardware:
        place = hardware.mount_point
        prepare(kind, place / "prepared", step)
        asked = {**asked_for(kind, place / "killed"), "step": step, "directory": str(place / "killed")}
        for number, fault in moments(server, asked, place, rng, MOMENTS):
            renew(place)
            os.sync()
            server.ask({**asked, "number": number, "fault": fault})
            hardware.cut()
            hardware.recover()
            bad += [f"{fault} at call {number}: {each}" for each in problems(kind, place / "killed", step)]
    assert bad == []


@pytest.mark.long
@pytest.mark.parametrize(("kind", "step"), list(product([*SERVERS, "sealed s3"], STEPS)))
def test_a_kill_of_a_client_leaves_every_text(server: FaultServer, tmp_path: Path, kind: str, step: str) -> None:
    """The client of a database server or of object storage is killed after a random time."""
    rng, bad, took_s, directory = random.Random(f"{kind} {step}"), [], 0.0, tmp_path / "here"
    for number in range(ON_SERVERS):
        key = f"store-{number}"
        prepare(kind, directory, step, key)
        given = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        asked = {**asked_for(kind, directory), "step": step, "directory": str(directory), "key": key}
        asked |= {"environment": given}
        answer = server.ask({**asked, "after_s": took_s and rng.uniform(0.0005, took_s * 1.2)})
        assert (answer.get("raised"), answer["hung"]) == (None, False)
        took_s = took_s or answer["took_s"]
        bad += [f"{number}: {each}" for each in problems(kind, directory, step, key)]
        with located(kind, directory) as place:
            place.erase(key)
    assert bad == []


@pytest.mark.skipif(ext4.why_not() is not None, reason=str(ext4.why_not()))
@pytest.mark.parametrize("kind", some(["sqlite", "directory"], 2))
def test_a_full_disk_fails_no_edit_because_of_packing(tmp_path: Path, kind: str) -> None:
    """An edit that is acknowledged is there, whether or not there was space to pack the memory after it."""
    acknowledged = []
    with ext4.memory_disk(tmp_path, size_kb=6_144) as place:
        for free_kb in FREE_KB:
            directory, ballast = place / f"with-{free_kb}", place / "ballast"
            directory.mkdir()
            with located(kind, directory) as opened:
                store = opened.store()
                write(store, OTHER, 0, OTHERS)
                store.sweep()
                write(store, MEMORY, 0, EDITED - 6)
                ballast.write_bytes(bytes(max(shutil.disk_usage(place).free - free_kb * 1_024, 0)))
                number = EDITED - 6
                with suppress(AssertionError):  # the reply is an error, because the disk is full
                    while number < EDITED + 4:
                        write(store, MEMORY, number, number + 1)
                        number += 1
                acknowledged.append(number)
                texts = [text_of(MEMORY, each) for each in range(number)]
                assert texts_at(store, MEMORY) == texts
                first = store.versions(OTHER)[-1].id
                with suppress(StoreFull):
                    store.history.redact(first)
                ballast.unlink()
                store.history.redact(first)
                store.sweep()
                assert texts_at(store, MEMORY) == texts
                assert texts_at(store, OTHER) == [None, *(text_of(OTHER, each) for each in range(1, OTHERS))]
            assert codes(look(url_of(kind, directory))) == set()
            shutil.rmtree(directory)
    assert acknowledged[0] < EDITED < acknowledged[-1]
