"""Inserts the tables of finished runs into benchmarks/README.md.

    python benchmarks/fill_readme.py peers.json clients.json startup.json

A file `peers.json` replaces the text between `<!-- peers -->` and `<!-- end of peers -->`.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from figures import Sheet

README = Path(__file__).with_name("README.md")


def filled(text: str, run: dict[str, object]) -> str:
    """Text with the table and the environment of one run inserted."""
    name, on, sheets = run["benchmark"], run["on"], run["sheets"]
    assert isinstance(on, dict)
    assert isinstance(sheets, list)
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise SystemExit(f"no place for {name} in the text: it lacks {begin} or {end}")
    versions = ", ".join(
        [
            f"{on['system']}, {on['cores']} cores, {on['file_system']}",
            f"Python {on['python']}, SQLite {on['sqlite']}, anthropic {on['anthropic']}",
        ]
    )
    tables = "\n\n".join(Sheet(**each).markdown() for each in sheets)
    block = f"{begin}\nMeasured {on['when']}: {versions}.\n\n{tables}\n{end}"
    return re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: block, text, flags=re.DOTALL)


def main() -> None:
    """Insert the runs named by the arguments."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", nargs="+", type=Path, metavar="FILE", help="what a script wrote with --json")
    options.add_argument("--readme", type=Path, default=README, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    text = chosen.readme.read_text(encoding="utf-8")
    for run in chosen.runs:
        text = filled(text, json.loads(run.read_text(encoding="utf-8")))
    chosen.readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
