"""`retentive report`: one HTML file with all that was selected, without scripts, requests or sensitive values."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import httpx2
import pytest

import retentive
from retentive import MemoryStore
from retentive.console import report
from retentive.console.report import of_changes, of_store
from retentive.console.visible import is_hidden
from retentive.errors import InvalidInput
from retentive.history.reads import LogFilter
from support.command_line import here
from support.console import Seen
from support.planted import plant

SECRET = "hunter2x9"
HEADERS = httpx2.Headers({"content-type": "text/html; charset=utf-8"})
OWN = re.compile(r"<style>|<meta .*|id memories/.*|<a href=#memories/.*>", re.DOTALL)
"""What a report has, and pages of the console have not."""


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    """A store in which a session created, edited and renamed memories, and a person another."""
    made = retentive.open(f"sqlite:///{tmp_path / 'memory.db'}").store("default")
    made.create("/memories/notes/a.md", "# Notes\n\n[plan](/memories/plan.txt)\n", actor="user:ann")
    made.create("/memories/plan.txt", "one\ntwo\n", actor="session:s1")
    made.edit("/memories/plan.txt", "two", "zwei ü", actor="session:s1")
    made.rename("/memories/plan.txt", "/memories/plans/new.txt", actor="session:s1")
    return made


def read(html: str) -> Seen:
    return Seen(200, HEADERS, "", html)


def test_the_report_of_a_store_has_figures_changes_and_texts(store: MemoryStore) -> None:
    made = of_store(store)
    assert (made.memories, made.changes, made.left_out, made.revision) == (2, 4, 0, 4)
    seen = read(made.html)
    for text in ("default", "as of r4", "/memories/notes/a.md", "zwei ü", "session:s1", "user:ann", "created"):
        assert text in seen.text
    assert "#memories/plans/new.txt" in seen.links
    assert 'id="memories/plans/new.txt"' in made.html


def test_the_report_of_changes_has_the_selected_ones_and_their_differences(store: MemoryStore) -> None:
    made = of_changes(store, LogFilter(actor="session:*"))
    seen = read(made.html)
    assert (made.memories, made.changes) == (1, 3)
    assert "user:ann" not in seen.text
    assert "/memories/plan.txt → /memories/plans/new.txt" in seen.text
    since = of_changes(store, LogFilter(), since="r2")
    assert (since.changes, since.memories) == (2, 1)
    assert re.search(r'class="del".*two.*class="add".*zwei ü', since.html, re.DOTALL)
    assert of_changes(store, LogFilter(actor="session:none")).changes == 0


def test_sensitive_values_are_masked_also_where_the_store_keeps_them(store: MemoryStore) -> None:
    store.change_settings({"sensitive": "off"})
    store.create("/memories/k.md", f"pw: {SECRET}\n")
    store.write("/memories/k.md", f"the\npw: {SECRET}\nend\n")
    store.write("/memories/k.txt", f"pw: {SECRET}\n")
    for made in (of_store(store), of_changes(store, LogFilter()), of_changes(store, LogFilter(), since="r5")):
        assert SECRET not in made.html
        assert "[REDACTED:" in made.html
    assert SECRET in store.read("/memories/k.md")


def test_redacted_and_deleted_memories_are_named_without_a_text(store: MemoryStore) -> None:
    store.delete("/memories/notes/a.md")
    version = store.history.log("/memories/plans/new.txt")[1]
    store.history.redact([version.id])
    made = of_changes(store, LogFilter())
    assert "redacted" in read(made.html).text
    assert "deleted" in read(made.html).text


def test_hostile_texts_make_no_element_and_deceive_nobody(tmp_path: Path) -> None:
    store = plant(retentive.open(f"sqlite:///{tmp_path / 'memory.db'}"), 1)
    for made in (of_store(store), of_changes(store, LogFilter())):
        seen = read(made.html)
        assert [each for each in seen.problems() if not OWN.fullmatch(each)] == []
        assert not [char for char in made.html if char != "\n" and is_hidden(char)]
        assert "window.pwned" in made.html
        assert made.html.count("<style>") == made.html.count("<meta http-equiv") == 1
        assert not re.search(r"<(?:script|img|link|iframe|form)[\s>]", made.html)


def test_the_policy_allows_the_style_sheet_of_the_file_and_nothing_else(store: MemoryStore) -> None:
    html = of_store(store).html
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = "default-src &#39;none&#39;; style-src &#39;sha256-" + digest
    assert policy.replace("+", "+") in html
    assert "style=" not in html


def test_a_long_report_names_what_it_leaves_out(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_TEXT_BYTES", 40)
    made = of_store(store)
    assert (made.memories, made.left_out) == (2, 1)
    assert "zwei" not in made.html
    assert "Texts are left out (1 of " in read(made.html).text
    monkeypatch.setattr(report, "MAX_ROWS", 1)
    assert of_changes(store, LogFilter()).left_out == 2


def test_the_command_writes_a_new_file(tmp_path: Path, store: MemoryStore) -> None:
    at, file = f"sqlite:///{tmp_path / 'memory.db'}", tmp_path / "report.html"
    ended = here(at, "report", "--html", str(file))
    assert (ended.exit_code, ended.stdout) == (0, "Wrote a report of 2 memories and 4 changes.\n")
    whole = file.read_bytes()
    assert b"zwei" in whole
    again = here(at, "report", "--html", str(file), "--session", "x")
    assert again.exit_code == 4
    assert file.read_bytes() == whole
    other = tmp_path / "other.html"
    chosen = here(at, "report", "--html", str(other), "--by", "session:*", "--since", "r2", "--json")
    found = json.loads(chosen.stdout)
    assert found == {"memories": 1, "changes": 2, "left_out": 0, "size_bytes": other.stat().st_size}


def test_a_wrong_selection_leaves_no_file(tmp_path: Path, store: MemoryStore) -> None:
    at, file = f"sqlite:///{tmp_path / 'memory.db'}", tmp_path / "report.html"
    assert here(at, "report", "--html", str(file), "--since", "r99").exit_code == 3
    assert not list(tmp_path.glob("*report*"))
    with pytest.raises(InvalidInput):
        of_changes(store, LogFilter(), since="never")
