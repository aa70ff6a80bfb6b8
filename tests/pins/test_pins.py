"""What each route and each command answers, recorded in routes.json and commands.json: status, codes and shapes.

`RETENTIVE_PIN=1 pytest tests/pins` writes the files again. A new route or command needs only its arguments there.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import pytest

import retentive
from retentive.cli.app import app
from retentive.server.handlers import ROUTES
from retentive.server.keys import id_in
from support.command_line import here
from support.http_api import Answer, Api, serving

HERE = Path(__file__).parent
A = "/memories/a.md"
VARIES = re.compile(r"\S*/pins\S*|rtv_\S+|\w*\d[\w.:+-]*")


def shape(value: Any) -> Any:
    """The keys and types of JSON. A list has the shape of its first item."""
    if isinstance(value, dict):
        return {key: shape(value[key]) for key in sorted(value)}
    return [shape(value[0])] if isinstance(value, list) and value else type(value).__name__


def compare(name: str, found: list[dict[str, Any]]) -> None:
    file = HERE / name
    if os.environ.get("RETENTIVE_PIN"):
        file.write_text("[\n" + ",\n".join(json.dumps(each) for each in found) + "\n]\n")
    assert json.loads(file.read_text()) == found


def pinned(name: str) -> Any:
    return json.loads((HERE / name).read_text())


def fill(place: retentive.Retentive, key: str) -> dict[str, str]:
    """Put two of everything into a store, and return the ids that requests and commands name."""
    store = place.store(key)
    store.change_settings({"review": ["session:*"], "trust": {"user:b": "unconfirmed"}, "quarantine": ["user:x"]})
    store.create(A, "one\ntwo\n", actor="user:ann")
    store.create("/memories/b.md", "other\n", actor="user:b")
    store.write(A, "1\ntwo\n", actor="user:ann")
    for text in ("proposed\n", "again\n"):
        store.write(A, text, actor="session:s")
    store.change_settings({"audit": True})
    store.read(A)
    newest, *_, oldest = (version.id for version in store.versions(A))
    return {
        "memory_store_id": store.id,
        "memory_id": store.load(A)[0].id,
        "memory_version_id": oldest,
        "newest": newest,
        "proposal_id": store.review.pending()[0].id,
    }


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    url = f"sqlite:///{tmp_path_factory.mktemp('pins')}/memory.db"
    with retentive.open(url) as opened, serving(opened) as served:
        served.place.can_dream = True
        yield served


def of_the_server(api: Api, path: str) -> dict[str, str]:
    """Ids of a key, and of a webhook endpoint with a delivery if the path has one. A workspace has at most 50."""
    if "group_id" in path:
        return {"group_id": api.post("/v1/organizations/groups", {"name": uuid4().hex}).body["id"]}
    if "dream_id" in path:
        inputs = [{"type": "memory_store", "memory_store_id": api.place.opened.store("dreaming").id}]
        dream_id = api.post("/v1/dreams", {"inputs": inputs, "model": "m"}).body["id"]
        if path.endswith("archive"):
            api.post(f"/v1/dreams/{dream_id}/cancel")
        return {"dream_id": dream_id}
    if "webhook" not in path:
        return {"api_key_id": id_in(api.with_key("read").key) or "", "workspace_id": "wrkspc_default"}
    hooks = api.place.webhooks
    hook = hooks.create("wrkspc_default", "https://example.com/", ("memory_store.created",))
    delivery = hooks.queue(hook, "webhook.test", datetime.now(UTC), hook.id)
    return {"webhook_endpoint_id": hook.id, "webhook_event_id": delivery.webhook_event_id}


def request(api: Api, method: str, path: str, body: Any) -> dict[str, Any]:
    headers = {"content-type": "application/x-tar"} if isinstance(body, bytes) else {}
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    answer = api.send(method, path, data, headers)
    found: dict[str, Any] = {"status": answer.status}
    if answer.status >= 400:
        return {**found, "error": answer.error["type"], "code": answer.error.get("details", {}).get("error_code")}
    return {**found, "body": kind_of(answer)}


def kind_of(answer: Answer) -> Any:
    return shape(answer.body) if isinstance(answer.body, dict) else answer.headers["content-type"].partition(";")[0]


def upload(api: Api, name: str, ids: dict[str, str]) -> bytes:
    if name == "import_memory_store":
        exported: bytes = api.get(f"/v1/memory_stores/{ids['memory_store_id']}/export?format=tar").body
        return exported
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("new.md")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    return file.getvalue()


def test_routes(api: Api) -> None:
    """Each route: a good request, one with an unknown field, and one with unknown ids."""
    known = {each["route"]: each for each in pinned("routes.json")}
    found = []
    for number, route in enumerate(ROUTES):
        name = f"{route.method} {route.path}"
        ids = fill(api.place.opened, f"pins-{number}") | of_the_server(api, route.path)
        given = known.get(name, {})
        query, body = given.get("query", ""), given.get("sent")
        sent = json.loads(
            json.dumps(body).replace("{newest}", ids["newest"]).replace("{store}", ids["memory_store_id"])
        )
        data = upload(api, route.name, ids) if route.upload else sent
        path, unknown = route.path.format(**ids), re.sub(r"\{\w+\}", "unknown", route.path)
        pin = {"route": name, "name": route.name, "query": query, "sent": body}
        if "text/event-stream" not in route.media_types:  # it does not end
            pin["good"] = request(api, route.method, path + query, data)
        more = f"{path}{query}{'&' if query else '?'}nothing=1"
        strict = {**(sent or {}), "nothing": 1} if route.body else data
        pin["unknown field"] = request(api, route.method, path if route.body else more, strict)
        if route.path_names:
            pin["unknown ids"] = request(api, route.method, unknown + query, data)
        found.append(pin)
    compare("routes.json", found)


def commands(group: click.Group = app, above: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield from commands(command, f"{above}{name} ") if isinstance(command, click.Group) else [f"{above}{name}"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    directory = tmp_path_factory.mktemp("pins")
    with retentive.open(f"sqlite:///{directory}/memory.db") as opened:
        ids = fill(opened, "default")
    return directory / "memory.db", ids


def run(scene: tuple[Path, dict[str, str]], tmp_path: Path, words: list[str], text: str) -> dict[str, Any]:
    """Exit status, and the first words of the output; with `--json` the shapes of its lines."""
    file, ids = scene
    directory = Path(shutil.copytree(file.parent, tmp_path / "pins", dirs_exist_ok=True))
    (directory / "files").mkdir(exist_ok=True)
    (directory / "files" / "f.md").write_text("imported")
    (directory / "q.toml").write_text('[[question]]\nask = "two"\npaths = ["a.md"]\n')
    given = [word.format(**ids, directory=directory) if "{" in word else word for word in words]
    ended = here(f"sqlite:///{directory}/memory.db", "--actor", "user:bob", *given, text=text.encode())
    shutil.rmtree(directory)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended
    out = ended.stdout.strip()
    if "--json" in words and ended.exit_code == 0 and out:
        shapes = [shape(json.loads(out))] if out[1:2].isspace() else [shape(json.loads(x)) for x in out.splitlines()]
        return {"status": 0, "json": [each for number, each in enumerate(shapes) if each not in shapes[:number]]}
    lines = (out or ended.stderr.strip()).splitlines() or [""]
    said = next((line for line in lines if line.startswith("Error")), lines[0])
    return {"status": ended.exit_code, "words": " ".join(VARIES.sub("#", said).split()[:8])[:90]}


def test_commands(scene: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """Each command: as a person and as a program calls it, and with a path that nothing has, or an unknown option."""
    known: dict[str, Any] = {each["command"]: each for each in pinned("commands.json")}
    found = []
    for name in commands():
        given, text = known.get(name, {}).get("arguments", []), known.get(name, {}).get("input", "")
        pin = {"command": name, "arguments": given, "input": text}
        pin["plain"] = run(scene, tmp_path, [*name.split(), *given], text)
        context = click.Context(app)
        command: Any = app
        for word in name.split():
            command = command.get_command(context, word)
        if any("--json" in option.opts for option in command.params):
            pin["json"] = run(scene, tmp_path, [*name.split(), *given, "--json"], text)
        wrong = ["/memories/none.md" if word == A else word for word in given] if A in given else ["--nothing"]
        pin["refused"] = run(scene, tmp_path, [*name.split(), *wrong], text)
        found.append(pin)
    compare("commands.json", found)
