"""The call path of one command: the functions of retentive that a warm `create` and a warm `view` run on SQLite.

    python benchmarks/call_path.py [--list] [--check create=14,90,18 --check view=12,45] [--json FILE]

Prints how many files and distinct functions of retentive run, and how deep their frames are nested at most; with
`--list` also the functions, in the order of their first calls. Only the calling thread counts. Comprehensions and
generator expressions count as part of the function they are in, code that dataclasses generate does not count.

`--check` takes the most files, functions and frames; the exit status is 1 if a command needs more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType

import retentive

ROOT = Path(retentive.__file__).parent
INLINE = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
COMMANDS: dict[str, list[dict[str, object]]] = {
    "create": [
        {"command": "create", "path": f"/memories/d/{number}.md", "file_text": "one\ntwo\n"} for number in range(4)
    ],
    "view": [{"command": "view", "path": "/memories/d/0.md"}] * 4,
}
"""The last of each is traced; those before it warm up."""


@dataclass(frozen=True)
class CallPath:
    """The functions of retentive that ran, as `file:function`, in the order of their first calls."""

    command: str
    files: int
    functions: int
    depth: int
    names: tuple[str, ...]

    @property
    def figures(self) -> tuple[int, int, int]:
        """Files, functions and depth."""
        return self.files, self.functions, self.depth


class Tracer:
    """Notes the calls of functions that are defined below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._now = 0
        self.depth = 0
        self.seen: dict[CodeType, None] = {}

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take an event of `sys.setprofile`."""
        code = frame.f_code
        if event not in ("call", "return") or code.co_name in INLINE or not code.co_filename.startswith(self._root):
            return
        if event == "call":
            self.seen.setdefault(code)
            self._now += 1
            self.depth = max(self.depth, self._now)
        else:
            self._now -= 1

    def run(self, work: Callable[[], object]) -> None:
        """Trace a call."""
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)


def call_path(name: str, store: retentive.MemoryStore) -> CallPath:
    """The path of the last of the commands with this name. Raises `ValueError` if one is refused."""
    *before, last = COMMANDS[name]
    for command in before:
        store.execute(command)
    tracer, replies = Tracer(ROOT), list[retentive.Reply]()
    tracer.run(lambda: replies.append(store.execute(last)))
    if replies[0].is_error:
        raise ValueError(replies[0].text)
    names = tuple(f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}" for code in tracer.seen)
    return CallPath(name, len({code.co_filename for code in tracer.seen}), len(names), tracer.depth, names)


def limits(text: str) -> tuple[str, tuple[int, ...]]:
    """A limit of the command line, as `create=14,90,18`."""
    name, _, figures = text.partition("=")
    if name not in COMMANDS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(COMMANDS)}")
    try:
        return name, tuple(int(each) for each in figures.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{name}= takes up to three numbers with commas between them") from None


def over(found: Sequence[CallPath], most: Sequence[tuple[str, tuple[int, ...]]]) -> list[str]:
    """A sentence for each figure that is over its limit."""
    by_name = {one.command: one.figures for one in found}
    return [
        f"{name}: {value} {what}, at most {limit} are allowed"
        for name, figures in most
        for what, value, limit in zip(("files", "functions", "frames"), by_name[name], figures, strict=False)
        if value > limit
    ]


def main() -> int:
    """Run what the arguments ask for and print it."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    options.add_argument("--list", action="store_true", help="print the functions too")
    options.add_argument("--check", type=limits, action="append", default=[], metavar="NAME=FILES,FUNCTIONS,DEPTH")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures and functions to a file")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, retentive.open(f"sqlite:///{folder}/memory.db") as opened:
        found = [call_path(name, opened.store()) for name in COMMANDS]
    for one in found:
        print(f"{one.command:8} {one.files:3} files {one.functions:4} functions {one.depth:3} deep")
        if chosen.list:
            print("".join(f"    {name}\n" for name in one.names))
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")
    wrong = over(found, chosen.check)
    print("".join(f"{line}\n" for line in wrong), end="", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
