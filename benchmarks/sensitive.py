"""Speed of the search for sensitive values, in megabytes of UTF-8 per second.

    python benchmarks/sensitive.py [--quick] [--json FILE]

Prose, notes, code, logs and lock files contain no sensitive value, like most texts. The last rows are worst cases:
texts of candidates only. Each case runs with RE2 and without.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from random import Random
from time import perf_counter_ns

from figures import Sheet, announce, figures, judged, parser, steps, surroundings, write_json
from retentive.redaction.detector import Detector

RUNS = {"full": 9, "quick": 3, "tiny": 1}
CHARS = {"full": 1_000_000, "quick": 300_000, "tiny": 20_000}
AT_LEAST_MB_S = 50.0
SOURCE = Path(__file__).parent.parent / "src"
WORDS = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "we",
    "have",
    "meeting",
    "on",
    "Tuesday",
    "about",
    "new",
    "release",
    "which",
    "needs",
    "tests",
    "for",
    "sync",
    "before",
    "it",
    "can",
    "go",
    "out",
    "Anna",
    "wants",
    "her",
    "notes",
    "sorted",
    "by",
    "project",
    "and",
    "prefers",
    "short",
    "answers",
    "with",
    "an",
    "example",
]
RARE = ("password", "token", "key", "secret", "passport")


def prose(rng: Random) -> str:
    """Sentences, in which somebody speaks of passwords now and then."""
    words = (rng.choice(RARE if rng.random() < 0.003 else WORDS) for _ in range(40_000))
    return " ".join(word + (".\n" if rng.random() < 0.06 else "") for word in words)


def japanese(_rng: Random) -> str:
    """Prose that is not ASCII."""
    return "これは普通の文章です。特に秘密はありません。データベースの設定について、明日の会議で説明します。\n" * 1_000


def code(_rng: Random) -> str:
    """The source of retentive without the part that is about sensitive values."""
    files = [path for path in sorted(SOURCE.rglob("*.py")) if "guards" not in path.parts]
    return "".join(path.read_text("utf-8") for path in files)


def logs(rng: Random) -> str:
    """Server log with dates, addresses and ids."""
    line = (
        "2024-11-21 10:{:02}:{:02},{:03} INFO [worker-{}] request {:08x} path=/api/v1/items/{} status=200 took {} ms\n"
    )

    def numbers() -> tuple[int, ...]:
        return tuple(rng.randrange(below) for below in (60, 60, 1000, 9, 2**32, 9999, 313))

    return "".join(line.format(*numbers()) for _ in range(5_000))


def lock_file(_rng: Random) -> str:
    """A lock file of npm: nearly all of it is random base64."""
    hashes = [base64.b64encode(hashlib.sha512(str(at).encode()).digest()).decode() for at in range(2_000)]
    packages = {
        f"node_modules/p{at}": {
            "version": f"1.{at % 40}.{at % 7}",
            "resolved": f"https://registry.example.org/p{at}/-/p{at}-1.2.3.tgz",
            "integrity": f"sha512-{found}",
        }
        for at, found in enumerate(hashes)
    }
    return json.dumps({"lockfileVersion": 3, "packages": packages}, indent=2)


def settings(_rng: Random) -> str:
    """Nothing but names of secrets with stand-ins: every line is looked at closely."""
    return "DB_PASSWORD=${DB_PASSWORD}\nAPI_KEY=<your key>\ntoken: str = load()\npassword: required\n" * 400


def digits(rng: Random) -> str:
    """Numbers that could be of a card or an account, and are not."""
    return "".join(f"45{rng.randrange(10**14):014} DE{rng.randrange(10**20):020}\n" for _ in range(1_000))


CASES = {
    "prose": (prose, AT_LEAST_MB_S),
    "prose, Japanese": (japanese, AT_LEAST_MB_S),
    "code": (code, AT_LEAST_MB_S),
    "logs": (logs, AT_LEAST_MB_S),
    "lock file": (lock_file, AT_LEAST_MB_S),
    "worst: names of secrets only": (settings, None),
    "worst: numbers only": (digits, None),
}


def run(size: str) -> Sheet:
    """Every case with RE2 and without, in turns."""
    rng, rows, records = Random(1), [], []
    with steps(len(CASES) * 2, "sensitive") as step:
        for name, (make, bar) in CASES.items():
            part = make(rng)
            text = (part * (CHARS[size] // len(part) + 1))[: CHARS[size]]
            megabytes = len(text.encode()) / 1e6
            for engine, with_re2 in (("RE2", True), ("re alone", False)):
                figure = figures(times(text, RUNS[size], with_re2=with_re2))
                speed = megabytes * 1000 / figure.median_ms
                own_bar = bar if with_re2 else None
                verdict = judged(speed, own_bar)
                known = {"mb_s": speed, **asdict(figure), "bar": own_bar, "verdict": verdict}
                records.append({"text": name, "engine": engine, **known})
                rows.append((name, engine, f"{speed:.1f}", f"{own_bar:.0f}" if own_bar else "", verdict))
                step(f"{name}, {engine}")
    return Sheet("Looking for sensitive values, MB/s", ("text", "engine", "MB/s", "at least", ""), rows, records)


def times(text: str, runs: int, *, with_re2: bool) -> list[int]:
    """Times of the searches, after a first one that compiles the patterns."""
    detector = Detector()
    detector._with_re2 = with_re2
    detector.find(text[:1000])
    took = []
    for _ in range(runs):
        start = perf_counter_ns()
        detector.find(text)
        took.append(perf_counter_ns() - start)
    return took


def main() -> None:
    """Run it and print it."""
    chosen = parser(__doc__).parse_args()
    around = surroundings(chosen.dir)
    announce(around)
    result = run(chosen.size)
    result.show()
    if chosen.json:
        write_json(chosen.json, "sensitive", chosen.size, around, [result])


if __name__ == "__main__":
    main()
