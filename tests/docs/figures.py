"""The figures of the README, copied from benchmarks/README.md. `python tests/docs/figures.py` inserts them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
MEASURED = ROOT / "benchmarks" / "README.md"
CASES = {
    "create": "create",
    "view": "view",
    "str_replace": "str_replace",
    "insert": "insert",
    "rename": "rename",
    "delete": "delete",
    "list-1000": "view a directory of 1,000",
    "range-of-900000": "view 50 of 900,000 lines",
}
BACKENDS = ("SQLite", "directory")
_PLACE = re.compile(r"<!-- figures -->\n.*?<!-- end of figures -->", re.DOTALL)


def rows(text: str, name: str) -> list[list[str]]:
    """Return the cells of the table of one benchmark."""
    part = text.partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]


def when(text: str) -> str:
    """Return the machine and the date of the measurement."""
    found = re.search(r"<!-- peers -->\nMeasured (.*)\.\n", text)
    return found.group(1) if found else "never"


def block(text: str) -> str:
    """Return the section of the README with the figures from `text`, the page of the benchmarks."""
    ratios = {(row[0], row[1]): row[5] for row in rows(text, "peers")}
    lines = [" | ".join(["| SDK's local tool = 1", *CASES.values()]) + " |", "| --- " + "| --: " * len(CASES) + "|"]
    lines += [" | ".join([f"| {name}", *[ratios[case, name.lower()] for case in CASES]]) + " |" for name in BACKENDS]
    crowd = {row[1]: row[2] for row in rows(text, "clients") if row[0] == "threads 64"}
    last = (
        f"64 threads, each editing a memory of its own: {crowd['sqlite']} edits a second on SQLite,"
        f" {crowd['directory']} on plain files, {crowd['sdk']} with\nthe SDK's tool. {when(text)}."
    )
    return "\n".join(["<!-- figures -->", *lines, "", last, "<!-- end of figures -->"])


def filled(readme: str, text: str) -> str:
    """Return the README with the measured figures inserted."""
    return _PLACE.sub(lambda _: block(text), readme)


if __name__ == "__main__":
    README.write_text(filled(README.read_text("utf-8"), MEASURED.read_text("utf-8")), "utf-8")
