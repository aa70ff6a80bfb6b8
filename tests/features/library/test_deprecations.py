"""Use of a deprecated thing warns with its replacement and the version that removes it; the policy holds."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from datetime import date
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore, deprecation
from retentive.deprecation import DEPRECATIONS, DeprecatedKind, Deprecation
from support.command_line import here
from support.pages import ROOT


def example(kind: DeprecatedKind, name: str) -> Deprecation:
    return Deprecation(kind, name, use="the new one", since="1.2", on=date(2027, 1, 31), removed_in="2.0")


def sentence(name: str) -> str:
    return f"{name} is deprecated and will be removed in 2.0; use the new one"


@pytest.fixture
def deprecated(monkeypatch: pytest.MonkeyPatch) -> None:
    """One deprecation of each kind that Python code and the command line can use."""
    examples = (
        example("name", "Usage"),
        example("setting", "list_rows"),
        example("command", "stores"),
        example("option", "ls --json"),
        example("option", "ls --at"),
    )
    monkeypatch.setattr(deprecation, "DEPRECATIONS", examples)
    monkeypatch.setattr(deprecation, "_announced", set())


@pytest.mark.usefixtures("deprecated")
def test_a_public_name_warns_at_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning names the line of the caller, so that Python shows it for programs."""
    monkeypatch.delitem(vars(retentive), "Usage", raising=False)
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match=f"^{sentence('Usage')}$") as caught:
            assert retentive.Usage.__name__ == "Usage"
        assert [each.filename for each in caught] == [__file__]
    monkeypatch.setattr(deprecation, "DEPRECATIONS", ())
    assert retentive.Usage.__name__ == "Usage"


@pytest.mark.usefixtures("deprecated")
def test_a_setting_warns(store: MemoryStore) -> None:
    with pytest.warns(DeprecationWarning, match=f"^{sentence('list_rows')}$") as caught:
        assert store.change_settings({"list_rows": 5, "view_chars": 100}).list_rows == 5
    assert [each.filename for each in caught] == [__file__]
    with pytest.warns(DeprecationWarning, match="list_rows") as caught, retentive.open("sqlite://", list_rows=5):
        pass
    assert [each.filename for each in caught] == [__file__]


def test_nothing_else_warns(store: MemoryStore) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.change_settings({"list_rows": 5})


@pytest.mark.filterwarnings("ignore:list_rows is deprecated:DeprecationWarning")
@pytest.mark.usefixtures("deprecated")
def test_the_command_line_prints_the_sentence_once(tmp_path: Path) -> None:
    """To standard error, for a command and for its options, once in each process. After `--` there are no options."""
    at = f"sqlite:///{tmp_path}/m.db"
    retentive.open(at).close()
    assert here(at, "create", "/memories/a.md", "--", "--at").stderr == ""
    listed = here(at, "ls", "--json")
    assert listed.stderr == f"{sentence('ls --json')}\n"
    assert '"/memories/a.md"' in listed.stdout
    assert here(at, "ls", "--json").stderr == ""
    assert here(at, "stores").stderr == f"{sentence('stores')}\n"
    changed = here(at, "settings", "set", "list_rows=7")
    assert (changed.exit_code, changed.stderr) == (0, f"{sentence('list_rows')}\n")


def test_a_program_sees_the_warning_without_options(tmp_path: Path) -> None:
    """Python hides warnings that do not come from the program itself, so the warning must name its line."""
    program = tmp_path / "program.py"
    program.write_text(
        "from datetime import date\n"
        "from retentive import deprecation\n"
        "found = deprecation.Deprecation('name', 'Reply', 'the new one', '1.2', date(2027, 1, 31), '2.0')\n"
        "deprecation.DEPRECATIONS = (found,)\n"
        "from retentive import Reply\n",
        "utf-8",
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert f"program.py:5: DeprecationWarning: {sentence('Reply')}" in done.stderr


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_deprecations_follow_the_policy() -> None:
    """Each goes with a major version, and is in the changelog."""
    changes = " ".join((ROOT / "CHANGELOG.md").read_text("utf-8").partition("#### Deprecated")[2].split())
    for each in DEPRECATIONS:
        assert_follows(each, retentive.__version__, date.today())
        assert each.sentence in changes


def assert_follows(each: Deprecation, present: str, today: date) -> None:
    assert version(each.removed_in)[1:] in {(), (0,), (0, 0)}, "only a major version removes"
    assert version(each.since) < version(each.removed_in)
    assert version(each.since) <= version(present), "deprecated by a later version"
    assert version(present) < version(each.removed_in), "this version removes it: delete it from the list and the code"
    assert each.on <= today


@pytest.mark.parametrize(
    ("removed_in", "present", "reason"),
    [("2.1", "1.2", "only a major"), ("2.0", "1.1", "later version"), ("2.0", "2.0", "delete it")],
)
def test_the_policy_is_checked(removed_in: str, present: str, reason: str) -> None:
    each = Deprecation("name", "x", "y", since="1.2", on=date(2027, 1, 31), removed_in=removed_in)
    with pytest.raises(AssertionError, match=reason):
        assert_follows(each, present, date(2027, 9, 1))


def test_the_page_lists_all_deprecations() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| `?([^|`]+)`? \| (\S+), (\S+) \| (\S+) \|$", page, re.MULTILINE)
    assert rows == [(each.name, each.use, each.since, str(each.on), each.removed_in) for each in DEPRECATIONS]
    assert ("Nothing is deprecated now." in page) == (not DEPRECATIONS)
