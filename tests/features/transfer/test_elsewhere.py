"""Imports of exports of other products: one memory per conversation, user or entity, and never twice."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import retentive
from retentive import MemoryStore
from support.command_line import here
from support.commands import insert, rename, tree


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


@pytest.fixture
def store(at: str) -> Iterator[MemoryStore]:
    with retentive.open(at) as opened:
        yield opened.store()


def imported(at: str, kind: str, path: Path, *options: str) -> dict[str, Any]:
    """Import with the command, and return its JSON object, which has a message if the export was refused."""
    return json.loads(here(at, "--json", "import", "--from", kind, str(path), *options).stdout)  # type: ignore[no-any-return]


def run(at: str, kind: str, path: Path, *options: str) -> dict[str, int]:
    """Import, and return how many files became what."""
    found = imported(at, kind, path, *options)
    return {name: found[name] for name in ("created", "replaced", "same", "exists", "left", "refused") if found[name]}


def node(parent: str | None, role: str, *parts: object, kind: str = "text", **more: object) -> dict[str, Any]:
    content = {"content_type": kind, "parts": list(parts)}
    return {
        "parent": parent,
        "message": {"author": {"role": role}, "content": content, "create_time": 1736209402, **more},
    }


CHATGPT: dict[str, Any] = {
    "title": "Tea / or\ncoffee? 報告", "create_time": 1736209400.5, "conversation_id": "8f3a", "current_node": "d",
    "mapping": {
        "root": {"parent": None, "message": None},
        "s": node("root", "system", "Be brief."),
        "a": node("s", "user", "Tea or coffee?", {"content_type": "image_asset_pointer"}, kind="multimodal_text"),
        "other": node("a", "assistant", "An answer that was replaced."),
        "t": node("a", "assistant", "search()", recipient="browser"),
        "h": node("t", "assistant", "Hidden.", weight=0),
        "i": node("h", "user", "Hidden too.", metadata={"is_visually_hidden_from_conversation": True}),
        "d": node("i", "assistant", "Tea.\0 \ud83d"),
    },
}  # fmt: skip
CLAUDE: list[dict[str, Any]] = [
    {
        "uuid": "c1", "name": "", "created_at": "2025-02-01T10:00:00.5Z", "chat_messages": [
            {"sender": "human", "text": "", "created_at": "2025-02-01T10:00:01Z",
             "content": [{"type": "text", "text": "Hi"}],
             "attachments": [{"file_name": "a.txt", "extracted_content": "pasted"}], "files": [{"file_name": "b.png"}]},
            {"sender": "assistant", "text": "Hello", "content": [{"type": "tool_use", "text": None}]},
        ],
    },
    {"conversations_memory": "Likes tea.", "project_memories": {"p1": "Ships in May."}, "account_uuid": "u"},
    {"uuid": "p1", "name": "Launch", "prompt_template": "Be brief.",
     "docs": [{"filename": "plan.md", "content": "Plan"}]},
]  # fmt: skip
MEM0 = {
    "results": [
        {"id": "2", "memory": "Drinks tea", "user_id": "alex", "created_at": "2025-02-02T10:00:00-07:00",
         "metadata": {"k": 1}},
        {"id": "1", "memory": "Lives in Ulm", "user_id": "alex", "created_at": "2025-01-02T10:00:00Z"},
        {"id": "3", "memory": "Answers briefly", "agent_id": "bot"},
    ]
}  # fmt: skip
GRAPH = [
    {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["likes tea", "two\nlines"]},
    {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works_at"},
    {"type": "entity", "name": "Acme", "entityType": "company", "observations": []},
]
OBSERVATION = {
    "id": 1, "memory_session_id": "s1", "project": "shop", "type": "bugfix", "title": "Rounding", "subtitle": None,
    "narrative": "Cents were lost.", "text": None, "facts": '["use Decimal"]', "created_at_epoch": 1736209402000,
}  # fmt: skip
SUMMARY = {
    "id": 1,
    "memory_session_id": "s1",
    "project": "shop",
    "request": "Fix totals",
    "learned": "",
    "created_at_epoch": 1,
}
LETTA = {
    "agents": [{
        "id": "agent-0", "name": "Sam", "block_ids": ["block-0"], "core_memory": None, "messages": [
            {"role": "system", "content": "Prompt"},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}], "created_at": "2025-01-01T00:00:00+00:00"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"function": {"name": "send_message", "arguments": '{"message": "Hello"}'}}]},
        ],
    }],
    "blocks": [{"id": "block-0", "label": "human", "value": "Likes tea."}],
}  # fmt: skip
PASSAGES = [{"id": "p1", "text": "An old fact", "archive_id": "a1", "created_at": "2025-11-05 23:04:24.901468+00:00"}]


def database(path: Path) -> None:
    """Write a database like that of claude-mem."""
    with sqlite3.connect(path) as opened:
        for table, row in {"observations": OBSERVATION, "session_summaries": SUMMARY}.items():
            opened.execute(f"CREATE TABLE {table} ({', '.join(row)})")
            opened.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row.values()))
    opened.close()


def zipped(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def written(path: Path, content: object) -> Path:
    """Write an export: JSON, bytes, a directory or zip file of files, or what a function writes."""
    if callable(content):
        cast("Callable[[Path], None]", content)(path)
    elif isinstance(content, dict) and path.suffix in {"", ".zip"}:
        files = {name: each if isinstance(each, bytes) else json.dumps(each).encode() for name, each in content.items()}
        if path.suffix:
            zipped(path, files)
        else:
            for name, data in files.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(data)
    else:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


NOTE = b"---\ntitle: Tea\ntags: [x]\n---\n\n- [fact] green #tea\r\n"
LINES = "".join(f"{json.dumps(row)}\n" for row in GRAPH).encode()
EXPORTS: dict[str, tuple[str, str, object, dict[str, tuple[str, ...]]]] = {
    "chatgpt": ("chatgpt", "conversations.json", [CHATGPT], {
        "chatgpt/2025/tea-or-coffee-報告-1f5f846eaa.md": (
            '---\nsource: "import:chatgpt"\nid: "8f3a"\ncreated: "2025-01-07T00:23:20Z"\n---\n\n# T',
            "ea / or coffee? 報告\n\n## user, 2025-01-07 00:23:22\n\nTea or coffee?\n\n[image_asset_pointer]\n\n## a",
            "[image_asset_pointer]\n\n## assistant, 2025-01-07 00:23:22\n\nTea.\ufffd \ufffd\n")}),
    "chatgpt zip": ("chatgpt", "e.zip", {"x/conversations-000.json": [], "x/conversations-001.json": [CHATGPT],
                                         "x/user.json": b"{"}, {"chatgpt/2025/tea-or-coffee-報告-1f5f846eaa.md": ()}),
    "claude": ("claude", "folder", {"conversations.json": CLAUDE[:1], "memories.json": CLAUDE[1:2],
                                    "projects/p1.json": CLAUDE[2], "users.json": b"{"}, {
        "claude/2025/": ("# c1\n\n## user, 2025-02-01 10:00:01\n\nHi\n\n[a.txt]\n\npasted\n\n[b.png]\n",
                         "## assistant\n\nHello\n"),
        "claude/memory/memory-of-conversations-": ("Likes tea.",), "claude/memory/memory-of-p1-": ("Ships in May.",),
        "claude/projects/launch-": ("## Instructions\n\nBe brief.", "## plan.md\n\nPlan"),
    }),
    "memories of Claude": ("claude", "memories-000.zip", {"memories/u.json": {
        "account_uuid": "u", "memory_files": [{"path": "/notes/tea.md", "content": "Green."}]}}, {
        "claude/memory/memory-of-notes-tea-md-": ("# Memory of /notes/tea.md\n\nGreen.\n",)}),
    "mem0": ("mem0", "mem0.json", MEM0, {
        "mem0/users/alex-": ('- Lives in Ulm (2025-01-02)\n- Drinks tea (2025-02-02, {"k": 1})\n',),
        "mem0/agents/bot-": ("- Answers briefly\n",)}),
    "server-memory": ("server-memory", "memory.jsonl", LINES, {
        "server-memory/person/ann-": ("- likes tea\n- two\n  lines\n- works_at: Acme\n",),
        "server-memory/company/acme-": ("No observations.",)}),
    "a graph": ("server-memory", "memory.json", {"entities": GRAPH[::2], "relations": GRAPH[1:2]}, {
        "server-memory/person/ann-": ("- works_at: Acme\n",), "server-memory/company/acme-": ()}),
    "basic-memory": ("basic-memory", "notes", {"a/Tea time.md": NOTE, "left.txt": b"", ".obsidian/x.md": b"x"}, {
        "basic-memory/a/Tea time.md": (NOTE.decode(),)}),
    "claude-mem": ("claude-mem", "claude-mem.db", database, {"claude-mem/shop/shop-1970-01-01-": (
        "## Summary, 1970-01-01 00:00:01\n\n- Request: Fix totals\n\n",
        "## bugfix: Rounding, 2025-01-07 00:23:22\n\nCents were lost.\n\n- use Decimal\n")}),
    "claude-mem JSON": ("claude-mem", "export.json", {"observations": [OBSERVATION], "summaries": [SUMMARY]}, {
        "claude-mem/shop/shop-1970-01-01-": ("- use Decimal\n", "- Request: Fix totals\n")}),
    "letta": ("letta", "agent.af", LETTA, {
        "letta/sam/human-": ("# human\n\nLikes tea.\n",),
        "letta/sam/messages-": ("## user, 2025-01-01 00:00:00\n\nHi\n\n## assistant\n\nHello\n",)}),
    "letta passages": ("letta", "archive.json", PASSAGES, {"letta/archival/a1-": ("- An old fact\n",)}),
}  # fmt: skip
"""Format, file name and content of each export, and the beginnings of the paths with passages of the texts."""


@pytest.mark.parametrize("name", EXPORTS)
def test_each_format_twice(at: str, store: MemoryStore, tmp_path: Path, name: str) -> None:
    """The second import adds nothing. The provenance names the format."""
    kind, file, content, expected = EXPORTS[name]
    path = written(tmp_path / file, content)
    assert run(at, kind, path, "--dry-run")["created"] == len(expected)
    assert tree(store) == {}
    assert run(at, kind, path)["created"] == len(expected)
    found = tree(store)
    for start, passages in expected.items():
        text = next(text for where, text in found.items() if where.startswith(f"/memories/{start}"))
        assert [passage for passage in passages if passage not in text] == []
    versions = store.versions()
    assert set(run(at, kind, path)) <= {"same", "left"}
    assert (tree(store), store.versions()) == (found, versions)
    assert {each.provenance.source for each in store.memories()} == {f"import:{kind}"}


def test_a_grown_and_renamed_conversation_is_one_edit(at: str, store: MemoryStore, tmp_path: Path) -> None:
    """It keeps its path. What a person edited, also by an undo, or moved is kept and reported."""
    path = written(tmp_path / "conversations.json", [CHATGPT])
    run(at, "chatgpt", path, "--under", "/memories/old")
    (first,) = tree(store)
    grown = {
        **CHATGPT,
        "title": "Drinks",
        "current_node": "e",
        "mapping": {**CHATGPT["mapping"], "e": node("d", "user", "Why?")},
    }
    assert run(at, "chatgpt", written(path, [grown]), "--under", "/memories/old") == {"replaced": 1}
    (version, _) = store.versions(first)
    assert (version.operation, "Why?" in store.load(first)[1]) == ("modified", True)
    for edit in (insert(0, "mine", first), rename(first, first.replace("tea-or", "my"))):
        store.execute(edit)
        edited = tree(store)
        (done,) = imported(at, "chatgpt", path, "--under", "/memories/old")["files"]
        assert (done["became"], done["why"]) == ("exists", "edited since the import")
        assert tree(store) == edited
    assert run(at, "chatgpt", path, "--under", "/memories/old", "--overwrite") == {"replaced": 1}


def test_what_was_deleted_stays_deleted(at: str, store: MemoryStore, tmp_path: Path) -> None:
    """Also if it was moved before, or has another title now. Another memory at its path is no reason."""
    store.create("/memories/basic-memory/Tea.md", "Mine.")
    store.execute({"command": "delete", "path": "/memories/basic-memory/Tea.md"})
    assert run(at, "basic-memory", written(tmp_path / "notes", {"Tea.md": NOTE, "b.md": b"b"})) == {"created": 2}
    store.execute({"command": "delete", "path": "/memories/basic-memory/Tea.md"})
    store.execute(rename("/memories/basic-memory/b.md", "/memories/mine.md"))
    found = imported(at, "basic-memory", tmp_path / "notes")
    assert [(each["became"], each["why"]) for each in found["files"]] == [
        ("left", "deleted or moved since the import")
    ] * 2
    path = written(tmp_path / "c.json", [CHATGPT])
    run(at, "chatgpt", path)
    (chat,) = [each.path for each in store.memories("/memories/chatgpt")]
    store.execute(rename(chat, "/memories/chat.md"))
    store.execute({"command": "delete", "path": "/memories/chat.md"})
    written(path, [{**CHATGPT, "title": "Drinks"}])
    assert [run(at, "chatgpt", path, *more) for more in (["--dry-run"], [])] == [{"left": 1}] * 2
    assert list(tree(store)) == ["/memories/mine.md"]
    assert run(at, "chatgpt", path, "--overwrite") == {"created": 1}
    assert run(at, "chatgpt", path) == {"same": 1}


def test_values_that_guards_remove(at: str, store: MemoryStore, tmp_path: Path) -> None:
    """A value is removed from the text, and a second import still finds nothing new."""
    said = node(None, "user", "password = 'hunter2-Xy9!'")
    path = written(tmp_path / "c.json", [{**CHATGPT, "mapping": {"d": said}}])
    assert run(at, "chatgpt", path) == {"created": 1}
    assert "hunter2" not in str(tree(store))
    assert run(at, "chatgpt", path) == {"same": 1}


def test_a_long_conversation_is_divided(at: str, store: MemoryStore, tmp_path: Path) -> None:
    """No byte is lost, and if it grows, only the last part changes."""
    store.change_settings({"max_memory_bytes": 4_000})
    said = [f"{number} " + "é" * 500 for number in range(9)] + ["word\n" * 1_000]
    nodes = {str(number): node(str(number - 1) if number else None, "user", text) for number, text in enumerate(said)}
    long = {**CHATGPT, "mapping": nodes, "current_node": "9"}
    path = written(tmp_path / "c.json", [long])
    parts = run(at, "chatgpt", path)["created"]
    texts = tree(store)
    assert parts == len(texts) > 4
    assert sum(text.count("é") for text in texts.values()) == 4_500
    assert sum(text.count("word\n") for text in texts.values()) == 1_000
    assert [f"(part {number})" in str(texts) for number in (1, 2, parts, parts + 1)] == [False, True, True, False]
    written(path, [{**long, "current_node": "a", "mapping": {**nodes, "a": node("9", "user", "more")}}])
    assert run(at, "chatgpt", path) == {"same": parts - 1, "replaced": 1}


def broken(**change: object) -> list[dict[str, Any]]:
    return [CHATGPT, {**CHATGPT, **change}]


def encrypted(path: Path) -> None:
    zipped(path, {"conversations.json": b"[]"})
    data = path.read_bytes()
    at = data.index(b"PK\1\2")
    path.write_bytes(data[:6] + b"\1" + data[7 : at + 8] + b"\1" + data[at + 9 :])


def damaged(path: Path) -> None:
    zipped(path, {"conversations.json": json.dumps([CHATGPT]).encode()})
    data = path.read_bytes()
    path.write_bytes(data[:80] + b"\0\0\0\0" + data[84:])


def view(path: Path) -> None:
    """A database whose table is a view that never ends."""
    with sqlite3.connect(path) as opened:
        opened.execute(
            "CREATE VIEW observations AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id FROM n) SELECT id FROM n"
        )
    opened.close()


CYCLE = {"a": node("b", "user", "x"), "b": node("a", "user", "x")}
BROKEN: dict[str, tuple[str, str, object, str]] = {
    "no JSON": ("chatgpt", "c.json", b"[\nx", "c.json: line 2: not JSON"),
    "empty": ("mem0", "m.json", b"", "m.json: line 1: not JSON"),
    "cut": ("chatgpt", "c.json", json.dumps([CHATGPT, CHATGPT], indent=1).encode()[:-30], "c.json: line 2"),
    "no end of the list": ("chatgpt", "c.json", json.dumps([CHATGPT]).encode()[:-1], "c.json: line 1: not JSON"),
    "more after the list": ("chatgpt", "c.json", json.dumps([CHATGPT]).encode() + b"\n{}", "c.json: line 1: not JSON"),
    "not UTF-8": ("chatgpt", "c.json", b'[{"title": "\xff"}]', "c.json: line 1: not UTF-8"),
    "too deep": ("mem0", "m.json", b"[" * 200_000, "m.json: line 1: not JSON"),
    "a long number": ("mem0", "m.json", b"[" + b"1" * 5_000 + b"]", "m.json: line 1: not JSON"),
    "no id": ("chatgpt", "c.json", broken(conversation_id=None), "c.json[1].id: expected a string"),
    "no mapping": ("chatgpt", "c.json", CLAUDE[:1], "c.json[0].mapping: expected an object"),
    "a cycle": ("chatgpt", "c.json", broken(mapping=CYCLE, current_node="a"), "c.json[1].mapping.a: expected"),
    "a lost parent": ("chatgpt", "c.json", broken(mapping={"d": node("x", "user", "y")}), "c.json[1].mapping.x: exp"),
    "a wrong time": ("chatgpt", "c.json", broken(create_time=["x"]), "c.json[1].create_time: expected a time"),
    "a late time": ("chatgpt", "c.json", broken(create_time=1e300), "c.json[1].create_time: expected a time"),
    "a wrong title": ("chatgpt", "c.json", broken(title={}), "c.json[1].title: expected a string"),
    "another file": ("claude", "c.json", [CLAUDE[0], {"x": 1}], "c.json[1]: expected a conversation"),
    "no object": ("letta", "l.af", [[1]], "l.af[0]: expected an object"),
    "no memory": ("mem0", "m.json", {"results": [{"id": "1"}]}, "m.json: line 1.results[0]: expected a memory"),
    "a schema": ("mem0", "m.json", {"full_name": "Ann"}, "m.json: line 1: expected a memory of get_all"),
    "a line": ("server-memory", "m.jsonl", LINES + b'{"name": "x",}', "m.jsonl: line 4: not JSON"),
    "no name": ("server-memory", "m.jsonl", LINES + b'{"entityType": "x"}', "m.jsonl: line 4.name: expected a string"),
    "no block": ("letta", "l.af", {**LETTA, "blocks": []}, "l.af: line 1.agents[0].block_ids[0]: expected"),
    "a view": ("claude-mem", "c.db", view, "c.db: expected a table observations"),
    "a cut database": ("claude-mem", "c.db", b"SQLite format 3\0" + b"x" * 90, "c.db: expected a database"),
    "an encrypted zip": ("chatgpt", "e.zip", encrypted, "conversations.json: the zip file is broken"),
    "a damaged zip": ("chatgpt", "e.zip", damaged, "conversations.json: line 1: the zip file is broken"),
    "an empty zip": ("chatgpt", "e.zip", {"chat.html": b""}, "no file in it belongs to an export of this format"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_export_is_refused(at: str, store: MemoryStore, tmp_path: Path, name: str) -> None:
    """The error names the place. Nothing is imported, also not what is before the place."""
    kind, file, content, place = BROKEN[name]
    found = imported(at, kind, written(tmp_path / file, content))
    assert (found["code"], found["text"][: len(place) + 7]) == ("invalid_input", f"Error: {place}")
    assert "nothing was imported" in found["text"]
    assert tree(store) == {}


def test_hostile_names_and_sizes(at: str, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Titles cannot leave the directory. Names in a zip file are refused like those of any import."""
    titles = ["../../etc/passwd", ".git", "a" * 5_000, "\u202e\0", "%2e%2e%2f", "CON", "ก็" * 300]
    rows = [{**CHATGPT, "title": title, "conversation_id": str(at)} for at, title in enumerate(titles)]
    assert run(at, "chatgpt", written(tmp_path / "c.json", rows)) == {"created": len(titles)}
    assert {each.path.rpartition("/")[0] for each in store.memories()} == {"/memories/chatgpt/2025"}
    notes = {
        "../up.md": b"x",
        "/abs.md": b"x",
        "a\\b.md": b"x",
        ".git/x.md": b"x",
        "nul.md": b"\0",
        "latin.md": b"\xe9",
    }
    found = run(at, "basic-memory", written(tmp_path / "n.zip", notes))
    assert found == {"created": 1, "refused": 4, "left": 1}
    assert store.load("/memories/basic-memory/abs.md")[1] == "x"
    monkeypatch.setattr("retentive.transfer.elsewhere.MAX_EXPORT_BYTES", 1_000)
    bomb = written(tmp_path / "bomb.zip", {"conversations.json": b"[" + b" " * 10_000 + b"]"})
    assert imported(at, "chatgpt", bomb)["code"] == "too_large"
    assert imported(at, "chatgpt", tmp_path / "none.zip")["code"] == "not_found"


def test_a_large_export_is_read_in_pieces(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value is decoded once it is complete, however the bytes are divided. Lines are counted on."""
    monkeypatch.setattr("retentive.transfer.elsewhere._CHUNK", 7)
    rows = [{"name": f"é {number}", "entityType": "x", "observations": ["é\n"] * number} for number in range(20)]
    assert run(at, "server-memory", written(tmp_path / "x.json", json.dumps(rows, ensure_ascii=False).encode())) == {
        "created": 20
    }
    lines = "\n\n".join(json.dumps(row) for row in rows)
    assert run(at, "server-memory", written(tmp_path / "x.jsonl", lines.encode())) == {"same": 20}
    found = imported(at, "server-memory", written(tmp_path / "x.jsonl", f"{lines}\n{{}}".encode()))
    assert found["text"].startswith("Error: x.jsonl: line 40.name: expected a string")


def test_the_command(at: str, tmp_path: Path) -> None:
    """A dry run counts. A broken export ends with status 2."""
    path = written(tmp_path / "c.json", [CHATGPT])
    found = here(at, "import", "--from", "chatgpt", str(path), "--dry-run")
    assert (found.exit_code, found.stderr) == (0, "Would be: 1 created.\n")
    without = here(at, "import", str(path))
    assert (without.exit_code, "another product: add --from chatgpt.\n" in without.stderr) == (13, True)
    written(path, broken(title=1))
    found = here(at, "import", "--from", "chatgpt", str(path))
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith("Error: c.json[1].title: expected a string; nothing was imported\n")
    assert here(at, "import", "--from", "mem0", "--whole", str(path)).exit_code == 2
