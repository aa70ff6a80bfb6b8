"""Live pages: the changes of a store as messages, each once, resumable, few, and ended with the sign-in."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import runpy
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pytest

import retentive
from retentive import MemoryStore
from retentive.console import live, rows
from retentive.console.sessions import IDLE_S, InProcess, Sessions
from retentive.console.visible import is_hidden
from retentive.console.web import Console, console
from support import hostile
from support.console import Person, Seen
from support.http_api import Api, serving

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
STATIC, TEMPLATES = (ROOT / "src/retentive/console" / name for name in ("static", "templates"))
A = "/memories/notes/a.md"


def fragment(person: Person, html: str) -> Seen:
    """The rows of a message, read as strictly as a page."""
    return Seen(200, person.get("/console/login").headers, "", html)


def revisions(html: str) -> list[str]:
    return [part.partition("<")[0] for part in html.split(">r")[1:]]


def revision_of(store: MemoryStore) -> int:
    return store.versions()[0].revision


def test_a_change_is_a_row_with_the_revision_as_its_id(person: Person, store: MemoryStore, at: str) -> None:
    with person.streaming(f"{at}/events") as stream:
        assert stream.comment() == ": connected"
        made = person.get(f"{at}/tree/")  # so the stream has begun
        assert made.status == 200
        store.edit(A, "one", "1", actor="session:s9")
        found = stream.next()
    assert found is not None
    assert (found.name, found.id) == ("", str(revision_of(store)))
    row = fragment(person, found.data)
    assert row.problems() == []
    assert row.text.startswith(f"session:s9 r{found.id} modified {A}")
    assert f"{at}/change/{store.versions()[0].id}" in row.links


def test_a_stream_resumes_from_the_history(person: Person, store: MemoryStore, at: str) -> None:
    """The rows after the revision of the page, or after the last message, newest first, and none twice."""
    shown = revision_of(store)
    for number in range(3):
        store.create(f"/memories/{number}.md", "")
    with person.streaming(f"{at}/events?after={shown}") as stream:
        found = stream.next()
    assert found is not None
    assert revisions(found.data) == [f"{shown + 3}", f"{shown + 2}", f"{shown + 1}"]
    store.create("/memories/later.md", "")
    with person.streaming(f"{at}/events?after={shown}", last_event_id=found.id) as stream:
        later = stream.next()
    assert later is not None
    assert revisions(later.data) == [f"{shown + 4}"]


def test_another_process_resumes_where_the_first_one_ended(tmp_path: Path) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/m.db") as opened:
        store = opened.store()
        with serving(opened, more=lambda server: console(server).routes()) as api:
            person = Person(api)
            store.create("/memories/a.md", "")
            with person.streaming(f"/console/s/{store.id}/events?after=0") as stream:
                first = stream.next()
            person.close()
        store.create("/memories/b.md", "")
        with serving(opened, more=lambda server: console(server).routes()) as api:
            person = Person(api)
            assert first is not None
            with person.streaming(f"/console/s/{store.id}/events?after=0", last_event_id=first.id) as stream:
                second = stream.next()
            person.close()
    assert second is not None
    assert "/memories/b.md" in second.data
    assert "/memories/a.md" not in second.data


@pytest.mark.parametrize("after", ["x", "-1", "1" * 19, "r1"])
def test_a_malformed_revision(person: Person, at: str, after: str) -> None:
    assert person.get(f"{at}/events?after={after}").status == 400
    assert person.get(f"{at}/events", last_event_id=after).status == 400


def test_a_page_gets_the_rows_of_its_filter(person: Person, store: MemoryStore, at: str) -> None:
    shown = revision_of(store)
    store.create("/memories/notes/b.md", "", actor="session:x")
    store.create("/memories/notesb.md", "", actor="session:x")
    store.create("/memories/c.md", "", actor="user:ann")
    for query, expected in {
        "path=notes": [shown + 1],
        "path=/memories/notes/": [shown + 1],
        "path=/memories": [shown + 3, shown + 2, shown + 1],
        "actor=session:*": [shown + 2, shown + 1],
        "actor=user:*&path=c.md": [shown + 3],
        "operation=created": [shown + 3, shown + 2, shown + 1],
    }.items():
        with person.streaming(f"{at}/events?after={shown}&{query}") as stream:
            found = stream.next()
        assert found is not None
        assert revisions(found.data) == list(map(str, expected)), query


def test_other_changes_are_named_messages(
    api: Api, person: Person, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`changed` for settings, and `waiting` for proposals, the latter for those who review."""
    monkeypatch.setattr(live, "GAP_S", 0.0)
    store.change_settings({"review": ["session:new"]})
    shown = str(revision_of(store))
    store.create("/memories/p.md", "x", actor="session:new")
    reader = Person(api, api.with_key("read").key)
    with person.streaming(f"{at}/events", last_event_id=shown) as stream:
        found = [stream.next(), stream.next()]
    assert [(each and each.name) for each in found] == ["changed", "waiting"]
    with reader.streaming(f"{at}/events", last_event_id=shown) as stream:
        first = stream.next()
        assert first is not None
        assert first.name == "changed"
        store.create("/memories/next.md", "")
        second = stream.next()
        assert second is not None
        assert second.name == ""
    reader.close()


def test_a_removed_memory_leaves_the_rows(person: Person, store: MemoryStore, at: str) -> None:
    """The rows that a process keeps are read again after a removal, so a page that connects gets no erased path."""
    store.create("/memories/secret-name.md", "x")
    with person.streaming(f"{at}/events?after=0") as stream:
        before = stream.next()
        assert before is not None
        assert "secret-name" in before.data
        store.history.erase("/memories/secret-name.md")
        store.create("/memories/last.md", "")
        after = before
        while "/memories/last.md" not in after.data:
            with person.streaming(f"{at}/events?after=0") as other:
                found = other.next()
            assert found is not None
            after = found
    assert "secret-name" not in after.data


def test_a_row_that_was_read_during_an_erasure_leaves_with_it(api: Api, store: MemoryStore) -> None:
    """The versions go in a later commit than the event of the erasure, and this commit has no revision."""

    def window(before: rows.Window | None = None) -> rows.Window:
        work = partial(rows.window, rendered=str, before=before)
        return api.place.opened.backend.read(store.id, work)

    store.create("/memories/secret-name.md", "x")
    before = window()
    store.history.erase("/memories/secret-name.md")
    after = window()
    assert window(replace(after, rows=before.rows)) == after
    assert window(after) is after


def test_a_key_that_is_revoked_ends_its_streams(api: Api, store: MemoryStore, at: str) -> None:
    """No row of a later change is sent."""
    made = api.place.keys.create("x", scopes=("read",))
    person = Person(api, made.text)
    with person.streaming(f"{at}/events") as stream:
        stream.comment()
        api.place.keys.change(made.record.id, status="archived")
        store.create("/memories/after.md", "")
        found = stream.next()
        assert found is not None
        assert (found.name, found.id) == ("signed-out", "")
        assert stream.next() is None
    again = person.get(f"{at}/events", accept="text/html, text/event-stream")
    assert again.headers["content-type"].startswith("text/event-stream")
    with person.streaming(f"{at}/events", accept="text/event-stream") as stream:
        only = stream.next()
        assert only is not None
        assert only.name == "signed-out"
        assert stream.next() is None
    person.close()


def test_a_stream_does_not_prolong_a_sign_in(api: Api) -> None:
    now = [1_000.0]
    sessions = Sessions(api.place.keys, InProcess(), clock=lambda: now[0])
    record = api.place.keys.create("x").record
    token = sessions.begin(record)
    for _ in range(6):
        assert sessions.key_of(token) == record
        now[0] += IDLE_S / 6
    now[0] += 1
    assert sessions.key_of(token) is None
    assert sessions.key_of("unknown") is None


def test_a_sign_in_has_four_streams(api: Api, at: str) -> None:
    """The fifth is refused until one of them ends."""
    person, other = Person(api), Person(api)
    with ExitStack() as open_streams:
        for _ in range(4):
            open_streams.enter_context(person.streaming(f"{at}/events")).comment()
        refused = person.get(f"{at}/events")
        assert (refused.status, "at most 4 live pages" in refused.text) == (429, True)
        with other.streaming(f"{at}/events") as stream:
            assert stream.comment() == ": connected"
    while person.get(f"{at}/events").status == 429:  # until the server has seen that the streams are closed
        pass
    person.close()
    other.close()


def test_a_stream_needs_the_scope_and_the_store(api: Api, store: MemoryStore, at: str) -> None:
    """Without `read` it is refused; a store of another workspace or of other patterns does not exist."""
    for options, expected in (
        ({"scopes": ("write",)}, 403),
        ({"scopes": ("admin",), "workspace_id": "wrkspc_other"}, 404),
        ({"scopes": ("read",), "stores": ("memstore_other",)}, 404),
    ):
        made: dict[str, Any] = options
        person = Person(api, api.place.keys.create("x", **made).text, signs_in=False)
        person.sign_in()
        assert person.get(f"{at}/events?after=0").status == expected
        assert person.get(f"{at}/events?after=0", accept="text/event-stream").status == expected
        person.close()


def test_a_stream_has_one_audit_entry(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    person.get(f"{at}/events")
    assert [each.operation for each in store.audit.entries() if each.operation == "events"] == ["events"]


@dataclass(frozen=True)
class Gated:
    """A server, its console and a store of it, and the gate of its streams."""

    api: Api
    console: Console
    store: MemoryStore
    gate: Event


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    """A server whose streams pause until the test lets them go on, whatever the time."""
    gate, made = Event(), list[Console]()

    async def sleep(seconds: float) -> None:
        while seconds == live.GAP_S and not gate.is_set():
            await asyncio.sleep(0.005)

    def add(server: Any) -> Any:
        made.append(console(server))
        made[0].live.sleep = sleep
        return made[0].routes()

    with retentive.open(f"sqlite:///{tmp_path}/m.db") as opened, serving(opened, more=add) as api:
        yield Gated(api, made[0], opened.store(), gate)
        gate.set()


def test_signing_out_ends_the_streams_of_the_sign_in_at_once(gated: Gated) -> None:
    """Without the check of sign-ins, which is for those that end elsewhere."""
    gated.console.live._check_s = gated.console.live._keep_alive_s = 3_600
    at = f"/console/s/{gated.store.id}/events"
    person, other = Person(gated.api), Person(gated.api)
    with person.streaming(at) as stream, other.streaming(at) as kept:
        stream.comment()
        kept.comment()
        person.post("/console/logout", person.get("/console/").form("/logout"))
        ended = stream.next()
        assert ended is not None
        assert ended.name == "signed-out"
        gated.store.create("/memories/x.md", "")
        found = kept.next()
        assert found is not None
        assert found.name == ""
    person.close()
    other.close()


def test_hostile_rows_have_no_element_or_field_of_a_payload(person: Person, api: Api) -> None:
    """Paths, actors, integrations and sessions of the corpus."""
    store = api.place.opened.store("hostile rows")
    names, paths = list(hostile.names()), list(hostile.path_names())
    for at, path in enumerate(paths):
        through = store.through(names[at % len(names)])
        through.create(f"/memories/{path}", names[at], actor=f"session:{names[at]}", session=names[at])
    shown, count = revision_of(store) - len(paths), len(paths)
    with person.streaming(f"/console/s/{store.id}/events?after={shown}") as stream:
        found = stream.next()
    assert found is not None
    assert (found.name, found.id) == ("", str(shown + count))
    page = fragment(person, found.data)
    assert page.problems() == []
    assert not [char for char in page.text if is_hidden(char)]
    assert len(revisions(found.data)) >= count
    assert page.body.count("window.pwned") >= 2 * count


def test_htmx_is_the_published_file_with_its_licence() -> None:
    """`scripts/vendor_htmx.py` made it, from a package whose digests it knows."""
    made = runpy.run_path(str(ROOT / "scripts/vendor_htmx.py"))
    code = (STATIC / "htmx.js").read_bytes()
    assert hashlib.sha256(code).hexdigest() == made["JOINED"]
    assert code.startswith(made["HEADER"].encode())
    assert (STATIC / "htmx.LICENSE").read_text("utf-8").startswith("Zero-Clause BSD")


def test_files_of_a_page_are_small() -> None:
    """At most 100 KB without compression of the style sheet and the scripts beyond htmx, and 20 KB of htmx with it."""
    own = [each for each in STATIC.iterdir() if each.suffix in {".css", ".js"} and each.name != "htmx.js"]
    assert sum(each.stat().st_size for each in own) + (STATIC / "htmx.js").stat().st_size < 100_000
    assert len(gzip.compress((STATIC / "htmx.js").read_bytes())) < 20_000


def test_no_template_uses_what_needs_eval() -> None:
    """The content security policy forbids it: handlers and expressions in attributes, filters of triggers."""
    for template in TEMPLATES.iterdir():
        text = template.read_text("utf-8")
        assert not re.search(
            r"hx-on|hx-vals|hx-confirm|hx-headers|js:|javascript:|hx-trigger=\"[^\"]*\[|data-hx-", text
        )
        assert not re.search(r"\son[a-z]+=|style=\"|\|safe", text), template.name
