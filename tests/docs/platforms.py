"""Fills the tables of docs/platforms.md from tests/environments/results.json: `python -m docs.platforms`, in tests.

Each cell is a test. A test without a result is a cell that says "not run".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from environments.test_extras import TESTS
from environments.test_file_systems import NAMES
from features.packages.pythons import VERSIONS
from support.pages import ROOT
from support.recorded import results

Results: TypeAlias = Mapping[str, Mapping[str, str]]

PAGE = ROOT / "docs" / "platforms.md"
EXTRAS = "tests/environments/test_extras.py::test_"
SYSTEMS = "tests/environments/test_file_systems.py::test_"
PACKAGES = "tests/features/packages/test_"
UVX = "tests/environments/test_uvx.py::test_"
OTHER = "tests/features/platforms/test_other_platforms.py::test_the_sample_passes_without_what_the_platform_lacks"
OF_A_FILE_SYSTEM = (
    "the_backend_suite_passes",
    "a_killed_writer_loses_nothing",
    "names_that_the_file_system_joins_are_refused",
    "a_change_of_many_memories_joins_no_names",
)
SHOWN = {
    "btrfs": "Btrfs",
    "exfat": "exFAT (FUSE), ignores case",
    "ext4 casefold": "ext4 with casefold",
    "overlay": "overlay on ext4",
    "overlay on xfs": "overlay on XFS",
    "xfs": "XFS",
    "zfs": "ZFS (FUSE), ignores case and Unicode form, like that of macOS",
}
"""Names of file systems on the page, if they differ."""
PROOFS: Mapping[str, tuple[str, Sequence[str]]] = {
    "the wheel has the package and nothing else; the sdist has the sources": (
        "make test-packages",
        (f"{PACKAGES}packages.py::test_the_wheel_contains_the_package_and_nothing_else",
         f"{PACKAGES}packages.py::test_the_sdist_contains_the_sources_of_a_wheel"),
    ),
    "two builds are equal, the checksums are right, and all wheels install without an index": (
        "make test-packages",
        (f"{PACKAGES}release.py::test_the_checksums_are_those_of_the_files",
         f"{PACKAGES}release.py::test_wheels_and_sdist_run_in_empty_environments"),
    ),
    "the bill of materials names each wheel with its license": (
        "make test-packages",
        (f"{PACKAGES}release.py::test_the_bill_of_materials_names_each_wheel_with_its_license",),
    ),
    "the image builds without network, and serves": (
        "make test-image",
        ("tests/environments/test_image.py::test_the_image_builds_without_network_and_serves",),
    ),
    "the sample of tests without what macOS lacks": ("make test-packages", (f"{OTHER}[macos]",)),
    "the sample of tests without what Windows lacks": ("make test-packages", (f"{OTHER}[windows]",)),
}  # fmt: skip
_ON_EACH_PYTHON = {
    "the first example of the README, with the wheel alone": (
        f"{PACKAGES}packages.py::test_the_first_example_runs_with_only_the_wheel_installed[{{}}]",
    ),
    "`uvx`: the command line, `retentive mcp` and `retentive console`": (
        f"{UVX}the_command_line[{{}}]", f"{UVX}the_mcp_server[{{}}]", f"{UVX}the_console[{{}}]",
    ),
}  # fmt: skip


def cell(found: Results, tests: Sequence[str]) -> str:
    """The common result of tests with the date of the oldest: failed, not run or passed."""
    entries = [found.get(test, {"result": "not run"}) for test in tests]
    for word in ("failed", "not run"):
        for each in entries:
            if each["result"] == word:
                return ": ".join([f"**{word}**" if word == "failed" else word, *filter(None, [each.get("reason")])])
    return f"passed {min(each['date'] for each in entries)}"


def python_table(found: Results) -> Iterator[str]:
    """Rows of sets of extras, with a column for the lowest versions, and one for each Python."""
    main = VERSIONS[0]
    heads = [f"lowest versions, {main}", main, *VERSIONS[1:]]
    yield from table_head(["extras", *heads])
    for extras in TESTS:
        same = f"{EXTRAS}an_environment_with_these_extras_only[{{}}-{extras or 'none'}]"
        other = f"{EXTRAS}another_version_of_python[{{}}-{extras or 'none'}]"
        tests = [same.format("lowest-direct"), same.format("highest"), *map(other.format, VERSIONS[1:])]
        name = ", ".join(f"`{each}`" for each in extras.split(",")) if extras else "none"
        yield row([name, *(cell(found, [test]) for test in tests)])


def installed_table(found: Results) -> Iterator[str]:
    """Rows of what is run from a wheel, with a column for each Python."""
    yield from table_head(["installed from the wheel", *VERSIONS])
    for name, tests in _ON_EACH_PYTHON.items():
        yield row([name, *(cell(found, [test.format(each) for test in tests]) for each in VERSIONS)])


def file_system_table(found: Results) -> Iterator[str]:
    yield from table_head(["file system", "result"])
    for name in NAMES:
        yield row([SHOWN.get(name, name), cell(found, [f"{SYSTEMS}{test}[{name}]" for test in OF_A_FILE_SYSTEM])])


def proof_table(found: Results) -> Iterator[str]:
    yield from table_head(["claim", "command", "result"])
    for name, (command, tests) in PROOFS.items():
        yield row([name, f"`{command}`", cell(found, tests)])


TABLES = {
    "extras": python_table,
    "installed": installed_table,
    "file systems": file_system_table,
    "proofs": proof_table,
}


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table_head(cells: Sequence[str]) -> Iterator[str]:
    yield row(cells)
    yield row(["---"] * len(cells))


def filled(page: str, found: Results) -> str:
    """The page with the present tables."""
    for name, table in TABLES.items():
        lines = "\n".join(table(found))
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        assert place.search(page), name
        page = place.sub(lambda match, lines=lines: f"{match[1]}{lines}\n{match[2]}", page)  # type: ignore[misc]
    return page


def main() -> None:
    """Write the page."""
    PAGE.write_text(filled(PAGE.read_text("utf-8"), results()), "utf-8")


if __name__ == "__main__":
    main()
