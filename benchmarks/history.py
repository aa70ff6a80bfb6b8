"""How much room does the history of memories take, beside plain copies and Git?

    python benchmarks/history.py [--quick] [--at NAME=URL ...] [--only NAME ...]

Three shapes: one memory of 90 KB with 300 edits of a line, 1,000 memories of 2 KB with 20 edits each, and a log of
2,000 appended lines. Every store is swept at the end, which packs its superseded texts. Counted are these texts as they
are stored (`retentive admin stats`), not their rows in the tables. Git has one commit for each state, and
`git gc --aggressive` has run.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import perf_counter

import retentive
from figures import parser, report, table, workplace
from places import places
from retentive.stats import stats

WORDS = [bytes(random.Random(seed).choices(range(97, 123), k=2 + seed % 8)).decode() for seed in range(4_000)]
SIZES = {"full": 1, "quick": 5, "tiny": 100}
"""Divisors of the numbers of edits and memories."""


def line(chance: random.Random) -> str:
    """Return a line of ten words."""
    return " ".join(chance.choices(WORDS, k=10)) + "\n"


def texts_of(size_bytes: int, edits: int, chance: random.Random) -> Iterator[str]:
    """Yield a text, and the text after each edit of one line."""
    lines = [line(chance) for _ in range(max(size_bytes // 65, 1))]
    yield "".join(lines)
    for _ in range(edits):
        lines[chance.randrange(len(lines))] = line(chance)
        yield "".join(lines)


def one_large(part: int) -> Iterator[tuple[str, str]]:
    """Yield the texts of the first shape."""
    for text in texts_of(90_000, 300 // part, random.Random(1)):
        yield "/memories/large.md", text


def many_small(part: int) -> Iterator[tuple[str, str]]:
    """Yield the texts of the second shape."""
    memories = [texts_of(2_000, 20, random.Random(number)) for number in range(1_000 // part)]
    for _ in range(21):
        for number, texts in enumerate(memories):
            yield f"/memories/{number}.md", next(texts)


def appended_log(part: int) -> Iterator[tuple[str, str]]:
    """Yield the texts of the third shape."""
    chance, text = random.Random(1), ""
    for _ in range(2_000 // part):
        text += line(chance)
        yield "/memories/log.md", text


SHAPES = {
    "90 KB, 300 edits": one_large,
    "1,000 of 2 KB, 20 edits each": many_small,
    "log of 2,000 lines": appended_log,
}


def in_retentive(url: str, shape: str, part: int) -> tuple[int, int, float]:
    """Write a history and sweep. Return the bytes of its superseded texts, as they are stored, and the seconds."""
    with retentive.open(url, sweep=False, max_memory_bytes=1_000_000) as location:
        store = location.store(shape)
        for path, text in SHAPES[shape](part):
            store.write(path, text)
        began = perf_counter()
        store.sweep()
        took_s, found = perf_counter() - began, stats(store)
        return found.history_bytes, int(found.stored_bytes or 0), took_s


def in_git(folder: Path, shape: str, part: int) -> int:
    """Commit each text with `git fast-import`, and return the bytes of the packs after `git gc`."""

    def run(*arguments: str, stream: bytes | None = None) -> None:
        subprocess.run(["git", "-C", str(folder), *arguments], input=stream, check=True, capture_output=True)

    folder.mkdir()
    run("init", "-q")
    commits = []
    for number, (path, text) in zip(count(1), SHAPES[shape](part), strict=False):
        who = b"committer a <a@example.com> %d +0000\ndata 0\n" % number
        data = text.encode()
        file = b"M 100644 inline %s\ndata %d\n%s\n" % (path[1:].encode(), len(data), data)
        commits.append(b"commit refs/heads/main\n" + who + file)
    run("fast-import", "--quiet", stream=b"".join(commits))
    run("gc", "-q", "--aggressive", "--prune=now")
    return sum(each.stat().st_size for each in (folder / ".git/objects/pack").glob("*.pack"))


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--at", action="append", default=[], metavar="NAME=URL", help="another location")
    options.add_argument("--only", action="append", default=[], metavar="NAME", help="only this location")
    chosen = options.parse_args()
    part, given = SIZES[chosen.size], dict(each.split("=", 1) for each in chosen.at)
    rows = []
    with workplace(chosen.dir) as folder, places(folder, given, chosen.only) as found:
        for shape in SHAPES:
            git = in_git(folder / shape.replace(" ", "-"), shape, part)
            cells = list[str]()
            for url in found.values():
                raw, stored, took_s = in_retentive(url, shape, part)
                cells += [f"{stored / 1e3:,.0f} KB", f"{stored / raw:.4f}", f"{took_s:.1f} s"]
            rows.append((shape, f"{raw / 1e6:.1f} MB", f"{git / 1e3:,.0f} KB", *cells))
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    head = [cell for name in found for cell in (name, "share", "sweep")]
    report(chosen, table(("shape", "plain copies", "Git", *head), rows))
    print(f"peak memory of the process: {peak_mb} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
