"""`MemoryBackend`: the protocol of deepagents, concurrent edits, and a deep agent that uses it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import product
from threading import Thread
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend
from deepagents.backends.protocol import BackendProtocol
from deepagents.backends.store import StoreBackend
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.store.memory import InMemoryStore

import retentive
from retentive import MemoryStore
from retentive.integrations.deepagents import MemoryBackend

FILES = {"/a.md": "one\ntwo one\n", "/notes/b.py": "import one\n", "/notes/deep/c.md": "three\n", "/d.txt": ""}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


@pytest.fixture
def backend(store: MemoryStore) -> MemoryBackend:
    return MemoryBackend(store, actor="session:s1")


@pytest.fixture
def pair(backend: MemoryBackend) -> tuple[MemoryBackend, StoreBackend]:
    """Ours and that of deepagents, with the same files."""
    theirs = StoreBackend(store=InMemoryStore(), namespace=lambda _: ("files",))
    for path, text in FILES.items():
        assert backend.write(path, text).error is None
        assert theirs.write(path, text).error is None
    return backend, theirs


def test_each_method_has_the_signature_of_the_protocol() -> None:
    for name, method in inspect.getmembers(MemoryBackend, inspect.isfunction):
        if not name.startswith("_"):
            known = inspect.signature(getattr(BackendProtocol, name)).parameters
            assert list(inspect.signature(method).parameters) == list(known), name


PATTERNS = (
    "*", "*.md", "**/*.md", "notes/*", "/*.md", "**", "n*/**/*.md", "c.md", "[ab].md", "{a,c}.md", "*.none", "[", "",
)  # fmt: skip


def test_listings_and_globs_equal_those_of_deepagents(pair: Any) -> None:
    for path in ("/", "/notes", "/notes/", "/notes/deep", "/none"):
        listed = [[(each["path"], each["is_dir"]) for each in one.ls(path).entries] for one in pair]
        assert listed[0] == listed[1], path
    for pattern, base in product(PATTERNS, (None, "/", "/notes", "/none", "/a.md")):
        ours, theirs = (each.glob(pattern, base) for each in pair)
        assert (ours.error is None) == (theirs.error is None), (pattern, base)
        assert {each["path"] for each in ours.matches or ()} == {each["path"] for each in theirs.matches or ()}


def test_a_glob_has_the_newest_file_first(backend: MemoryBackend) -> None:
    for name in ("a", "c", "b"):
        backend.write(f"/{name}.md", name)
    assert [each["path"] for each in backend.glob("*.md").matches or ()] == ["/b.md", "/c.md", "/a.md"]


def test_searches_equal_those_of_deepagents(pair: Any) -> None:
    bases = (None, "/notes", "/a.md", "/none")
    for pattern, only, base, most in product(("one", "two one", ".", ""), (None, "*.md", "["), bases, (None, 1, 2)):
        ours, theirs = (each.grep(pattern, base, only, max_count=most) for each in pair)
        assert (ours.error, ours.truncated) == (theirs.error, theirs.truncated), (pattern, only, base, most)
        if not ours.truncated:  # the order of files is not that of deepagents
            found = [sorted((m["path"], m["line"], m["text"]) for m in each.matches or ()) for each in (ours, theirs)]
            assert found[0] == found[1], (pattern, only, base, most)
        assert len(ours.matches or ()) == len(theirs.matches or ())


def test_reads_equal_those_of_deepagents(pair: Any) -> None:
    for path, window in product(("/a.md", "/d.txt"), ((0, 2000), (1, 1), (5, 10), (0, 0), (-1, 3))):
        ours, theirs = (each.read(path, *window) for each in pair)
        for each in (ours, theirs):
            for name in ("created_at", "modified_at"):
                if each.file_data is not None:
                    each.file_data.pop(name)
        assert ours == theirs, (path, window)


@pytest.mark.parametrize(
    ("old", "new", "everywhere"),
    [("two", "2", False), ("one", "1", False), ("one", "1", True), ("none", "x", False), ("", "x", False)],
)
def test_edits_equal_those_of_deepagents(pair: Any, old: str, new: str, everywhere: bool) -> None:
    ours, theirs = (each.edit("/a.md", old, new, everywhere) for each in pair)
    assert (ours.error, ours.occurrences) == (theirs.error, theirs.occurrences)
    texts = [each.download_files(["/a.md"])[0].content for each in pair]
    assert texts[0] == texts[1]


def test_an_edit_of_windows_lines(backend: MemoryBackend, store: MemoryStore) -> None:
    backend.write("/a.md", "one\r\ntwo\r\nthree\r\n")
    assert backend.edit("/a.md", "one\ntwo\n", "1\n2\n").occurrences == 1
    assert store.read("/memories/a.md") == "1\r\n2\r\nthree\r\n"


def test_mistakes_are_results(backend: MemoryBackend, store: MemoryStore) -> None:
    for result in (
        backend.read("/none.md"),
        backend.edit("/none.md", "a", "b"),
        backend.delete("/none.md"),
        backend.write("/../../etc/passwd", "x"),
        backend.write("/a\0b", "x"),
        backend.write("/large.md", "x" * 10_000_000),
        backend.grep("x", "/../.."),
        backend.ls("/../.."),
        backend.glob("*", "/../.."),
    ):
        assert result.error
    backend.write("/dir/a.md", "a")
    found = backend.download_files(["/dir", "/none", "/dir/a.md", "/../x"])
    assert [each.error for each in found] == ["is_directory", "file_not_found", None, "invalid_path"]
    up = backend.upload_files([("/b.md", b"b"), ("/c.md", b"\xff"), ("/../x", b"x")])
    assert [each.error for each in up] == [None, "the file is not text in UTF-8", "invalid_path"]
    store.change_settings({"read_only": True})
    assert backend.upload_files([("/d.md", b"d")])[0].error == "permission_denied"


def test_threads_lose_no_edit(backend: MemoryBackend, store: MemoryStore) -> None:
    backend.write("/a.md", "".join(f"line {n} 0\n" for n in range(8)))

    def run(n: int) -> None:
        for turn in range(20):
            assert backend.edit("/a.md", f"line {n} {turn}\n", f"line {n} {turn + 1}\n").error is None

    threads = [Thread(target=run, args=(n,)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert store.read("/memories/a.md") == "".join(f"line {n} 20\n" for n in range(8))


class Scripted(GenericFakeChatModel):
    def bind_tools(self, *_: Any, **__: Any) -> Scripted:
        return self


def call(name: str, **arguments: object) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": name, "type": "tool_call"}])


def test_a_deep_agent_remembers(store: MemoryStore) -> None:
    turns = [
        call("write_file", file_path="/memories/ada.md", content="Ada prefers e-mail\n"),
        call("edit_file", file_path="/memories/ada.md", old_string="e-mail", new_string="letters"),
        call("write_file", file_path="/scratch.md", content="not a memory\n"),
        AIMessage(content="done"),
    ]
    agent = create_deep_agent(
        model=Scripted(messages=iter(turns)),
        backend=CompositeBackend(StateBackend(), {"/memories/": MemoryBackend(store, actor="session:s1")}),
    )
    agent.invoke({"messages": [{"role": "user", "content": "Remember: Ada prefers letters."}]})
    assert [each.path for each in store.memories()] == ["/memories/ada.md"]
    assert store.read("/memories/ada.md") == "Ada prefers letters\n"
    assert {str(each.actor) for each in store.versions()} == {"session:s1"}
