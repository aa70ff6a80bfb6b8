"""Names in the documentation exist: files, links, error codes, exit statuses, replies, public names."""

from __future__ import annotations

import re
from inspect import signature, unwrap
from pathlib import Path
from pkgutil import resolve_name

import pytest

import retentive
from retentive.cli.exits import EXITS, status_of
from retentive.history.history import History
from retentive.review.session import Review
from retentive.values.replies import ERROR_CODES, Replies
from retentive.values.settings import NAMES, Settings
from support.pages import PAGES, ROOT, WRITTEN, prose

README = ROOT / "README.md"
PROMISES = ROOT / "docs" / "promises.md"
COMMANDS = ROOT / "docs" / "commands.md"
MAX_README_LINES = 110
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:tests|docs|examples|benchmarks|src|\.ci)/[A-Za-z0-9_./-]*|Makefile)`")
_TEST = re.compile(r"`(tests/[A-Za-z0-9_/]+\.py)(?:::(\w+))?`")


def resolves(page: Path, target: str) -> bool:
    """Whether a link leads to an existing file and, if it names a heading, to an existing heading."""
    if target.startswith(("http://", "https://", "mailto:")):
        return True
    name, _, heading = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    return file.exists() and (not heading or heading in headings(file))


def test_links_within_the_project_resolve() -> None:
    found = [(page, target) for page in PAGES for target in _LINK.findall(prose(page))]
    assert len(found) > len(PAGES)
    assert [(page.name, target) for page, target in found if not resolves(page, target)] == []


def test_files_that_are_named_are_there() -> None:
    found = {(page.name, name) for page in WRITTEN for name in _PATH.findall(page.read_text("utf-8"))}
    assert len(found) > len(WRITTEN)
    assert [(page, name) for page, name in found if not (ROOT / name).exists()] == []


def is_test(name: str, function: str) -> bool:
    file = ROOT / name
    return file.is_file() and (not function or f"def {function}(" in file.read_text("utf-8"))


def test_tests_that_are_named_are_there() -> None:
    found = {(page.name, *named) for page in WRITTEN for named in _TEST.findall(page.read_text("utf-8"))}
    assert len(found) > len(WRITTEN)
    assert [(page, *named) for page, *named in found if not is_test(*named)] == []


def test_every_promise_names_its_test() -> None:
    _, _, table = PROMISES.read_text("utf-8").partition("| promise | tests |\n| --- | --- |\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert rows
    assert [row for row in rows if not _TEST.search(row)] == []


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= MAX_README_LINES


def test_the_readme_leads_to_every_page() -> None:
    text = README.read_text("utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in text] == []


def test_the_error_table_is_that_of_the_code() -> None:
    """The table lists every code that a reply can have, with its exit status."""
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", COMMANDS.read_text("utf-8"), re.MULTILINE)
    assert {code: int(status) for code, status in rows} == {code: status_of(code) for code in ERROR_CODES.values()}
    assert {int(status) for _, status in rows} <= EXITS.keys()


def test_every_error_code_has_advice() -> None:
    """Each row of the table of codes says what to do."""
    rows = re.findall(r"^\| `(\w+)` \| \d+ \| [^|]+ \| ([^|]+) \|$", COMMANDS.read_text("utf-8"), re.MULTILINE)
    assert sorted(code for code, advice in rows if advice.strip()) == sorted(set(ERROR_CODES.values()))


def test_the_defaults_of_settings_are_those_of_the_code() -> None:
    """The guards page names every setting, and the defaults that other pages repeat."""
    guards = (ROOT / "docs" / "guards.md").read_text("utf-8")
    assert [name for name in NAMES if f"`{name}`" not in guards] == []
    default = Settings()
    history = (ROOT / "docs" / "history.md").read_text("utf-8")
    assert f"`keep_versions_days` ({default.keep_versions_days}; 0 = forever)" in history
    assert f"`keep_versions` ({default.keep_versions})" in history
    assert f"{default.keep_versions_days} days, and the newest {default.keep_versions} of each memory" in guards
    for value in (default.view_chars, default.list_rows, default.max_memory_bytes, default.max_memories):
        assert f"| {value:,} |" in guards


def test_every_sentence_of_the_catalogue_is_documented() -> None:
    """The documentation contains each sentence word for word, sometimes inside another sentence."""
    text = COMMANDS.read_text("utf-8")
    assert [
        name
        for name, said in vars(Replies).items()
        if isinstance(said, str) and name[0] != "_" and said.strip() not in text
    ] == []


def test_dotted_names_exist() -> None:
    """Modules, classes and functions of the package that a page names can be imported."""
    names = {name for page in WRITTEN for name in re.findall(r"`(retentive(?:\.\w+)+)", page.read_text("utf-8"))}
    assert names
    for name in sorted(names):
        resolve_name(name)


def test_public_names_are_documented() -> None:
    """Some page mentions every public name."""
    text = "".join(page.read_text("utf-8") for page in WRITTEN)
    assert [name for name in retentive.__all__ if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize(
    ("page", "heading", "type_"),
    [
        ("library.md", "| `Retentive` | |", retentive.Retentive),
        ("library.md", "| write | |", retentive.MemoryStore),
        ("library.md", "| write | |", retentive.Mounts),
        ("library.md", "| read | |", retentive.MemoryStore),
        ("library.md", "| `MemoryStore` | |", retentive.MemoryStore),
        ("library.md", "| `Mounts` | |", retentive.Mounts),
        ("history.md", "| `store.history` | |", History),
        ("review.md", "| `store.review` | |", Review),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_methods_in_tables_exist_with_their_arguments(page: str, heading: str, type_: type) -> None:
    table = (ROOT / "docs" / page).read_text("utf-8").partition(f"{heading}\n")[2].partition("\n\n")[0]
    first = "".join(re.split(r"(?<!\\)\|", row)[1] for row in table.splitlines())
    named = re.findall(r"(\w+)\(([^()]*)\)", first)
    assert named
    for method, arguments in named:
        if method == type_.__name__:
            continue
        own = unwrap(getattr(type_, method))
        known = {*signature(own).parameters, "", "...", "{...}"}
        for each in re.findall(r"Unpack\[(\w+)\]", str(own.__annotations__)):  # options that several methods share
            known |= own.__globals__[each].__annotations__.keys()
        unknown = {name.partition("=")[0].strip() for name in arguments.split(",")} - known
        assert unknown == set(), f"{method} has no argument {unknown}"


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_navigation_has_every_page() -> None:
    """A new page of docs goes into `nav` of mkdocs.yml, in the section where a reader looks for it."""
    _, _, nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")
    named = re.findall(r"- (?:[^:\n]+: )?([\w-]+\.md)$", nav, re.MULTILINE)
    outside = {
        "benchmarks.md",
        "changelog.md",
        "contributing.md",
        "api.md",
        "cli.md",
        "http-api.md",
    }  # scripts/documentation.py adds these
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert pages - set(named) == set(), "add these pages to `nav` in mkdocs.yml"
    assert set(named) - outside - pages == set(), "these pages of `nav` in mkdocs.yml do not exist"
    assert len(named) == len(set(named))


THREATS = (ROOT / "docs" / "security.md").read_text("utf-8")


def test_every_threat_names_a_test() -> None:
    """That a named test exists is tested for all pages."""
    _, _, rows = THREATS.partition("| threat | what prevents it | test |")
    threats = [row for row in rows.partition("\n\n")[0].splitlines()[2:] if row.startswith("|")]
    assert len(threats) > 12
    assert [row for row in threats if "`tests/" not in row] == []
