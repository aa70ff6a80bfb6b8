"""Time to examine texts of 1 MB for sensitive values.

    python benchmarks/examination_speed.py [--bytes N] [--runs N] [--only NAME]

Prints JSON. The time is the processor time of a `create` command in memory with default guards, less that of the same
command with the guards off. `growth` is the time of the text divided by that of its first eighth: 8 if time grows with
the length, 64 if it grows with the square. `sensitive_values.py` starts it.
"""

from __future__ import annotations

import argparse
import base64
import json
import string
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import TypeAlias

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

Make: TypeAlias = Callable[[Random], str]
PART_CHARS = 40_000
GROWTH = 8
ENOUGH_S = 2.0  # no further runs of an input that took this long
WORDS = (Path(__file__).resolve().parents[1] / "tests/support/detection/bip39.txt").read_text("utf-8").split()


def chars(alphabet: str, width: int = 0) -> Make:
    """Random characters, in lines of `width` or in one line."""

    def make(rng: Random) -> str:
        whole = "".join(rng.choices(alphabet, k=PART_CHARS))
        return "".join(whole[at : at + width] + "\n" for at in range(0, len(whole), width)) if width else whole

    return make


def repeated(line: str) -> Make:
    """One piece of text again and again."""
    return lambda _rng: line * (PART_CHARS // len(line) + 1)


def prose(rng: Random) -> str:
    """Words with full stops, in lines of ten."""
    words = (rng.choice(WORDS) + ("." if rng.random() < 0.1 else "") for _ in range(6_000))
    return " ".join(word + ("\n" if at % 10 == 9 else "") for at, word in enumerate(words))


def one_line_prose(rng: Random) -> str:
    """Words without a line end."""
    return prose(rng).replace("\n", "")


def password_lines(rng: Random) -> str:
    """Lines of a CSV with the columns name and password."""
    lines = (
        f"{rng.choice(WORDS)},{''.join(rng.choices(string.ascii_letters, k=10))}{rng.randrange(99)}\n"
        for _ in range(2_000)
    )
    return "name,password\n" + "".join(lines)


def secrets(form: str) -> Make:
    """Distinct values in a form: `{v}` is a password, `{t}` the rest of a token, `{n}` a number."""

    def make(rng: Random) -> str:
        return "".join(
            form.format(
                v="".join(rng.choices(string.ascii_letters + string.digits, k=12)) + "#4q",
                t="".join(rng.choices(string.ascii_letters + string.digits, k=36)),
                n=number,
            )
            for number in range(PART_CHARS // len(form))
        )

    return make


def password_words(_rng: Random) -> str:
    """The header of such a CSV in every line."""
    return "name,password\n" * 3_000


def minified(rng: Random) -> str:
    """Minified JavaScript in one line."""
    part = 'function {0}({1}){{return {1}.key?{0}({1}.token):{{password:{1},"{0}":!0}}}}var {0}={{secret:null,t:{2}}};'
    return "".join(part.format(*rng.choices(string.ascii_letters, k=2), rng.randrange(999)) for _ in range(400))


def base64_lines(rng: Random) -> str:
    """Base64 in lines of 76."""
    return base64.encodebytes(rng.randbytes(30_000)).decode()


def log(rng: Random) -> str:
    """Log lines with dates, addresses and ids."""
    return "".join(
        f"2026-03-11T10:{rng.randrange(60):02}:{rng.randrange(60):02}Z INFO [w-{rng.randrange(9)}] "
        f"id={rng.getrandbits(64):016x} path=/v1/items/{rng.randrange(10**6)} status=200 took {rng.randrange(999)} ms\n"
        for _ in range(400)
    )


def lock(rng: Random) -> str:
    """Lock file of npm."""
    line = '"node_modules/{0}-{1}": {{"version": "1.2.{2}", "integrity": "sha512-{3}"}},\n'
    return "".join(
        line.format(
            rng.choice(WORDS), rng.choice(WORDS), rng.randrange(99), base64.b64encode(rng.randbytes(64)).decode()
        )
        for _ in range(250)
    )


def files(folder: Path, pattern: str) -> Make:
    """Real files: each once, in the order of their names."""
    return lambda _rng: "\n".join(path.read_text("utf-8") for path in sorted(folder.glob(pattern)))


ORDINARY: dict[str, Make] = {
    "prose": prose,
    "log": log,
    "lock file": lock,
    "Markdown": files(Path(__file__).resolve().parents[1] / "docs", "*.md"),
    "source": files(Path(argparse.__file__).parent, "[a-p]*.py"),
}
WORST: dict[str, Make] = {
    "prose in one line": one_line_prose,
    "digits in one line": chars(string.digits),
    "digits in lines": chars(string.digits, 16),
    "digits in groups": repeated("4111 2222 3333 4444 "),
    "hex in one line": chars("0123456789abcdef"),
    "hex in lines": chars("0123456789abcdef", 64),
    "base64 in one line": chars(string.ascii_letters + string.digits + "+/"),
    "base64 in lines": base64_lines,
    "name,password CSV": password_lines,
    "name,password header repeated": password_words,
    "minified JavaScript": minified,
    "password: repeated": repeated("password: "),
    "password= in one line": repeated("password=a;"),
    "secret names without values": repeated("token secret api_key passwd pwd "),
    "the password is, in lines": repeated("the password is not here\n"),
    "table rows": repeated("| user | password | x |\n|---|---|---|\n| a | b | c |\n"),
    "URLs with users": repeated("https://user@example.com/a:b "),
    "colons and slashes": repeated("://"),
    "key headers without an end": repeated("-----BEGIN RSA " + "PRIVATE KEY-----\n"),
    "token prefixes": repeated("ghp_ sk- xoxb- AKIA eyJ. glpat- SG. "),
    "JWT starts": repeated("eyJhbGciOi."),
    "percent signs": repeated("%41%3d%"),
    "zero-width characters": repeated("a\u200b"),
    "full-width forms": repeated("\uff41\uff11\uff1d"),
    "Japanese": repeated("これは普通の文章です。パスワードについて説明します。"),
    "spaces": repeated(" "),
    "line ends": repeated("\n"),
    "quotes and backslashes": repeated('\\"'),
    "IBAN starts": repeated("DE12 3456 7890 "),
    "names in one line": repeated("password token key "),
    "is the password": repeated("is the password "),
    "redacted values": repeated("password: [REDACTED:password]Xk9#mQ2zv"),
    "passwords": secrets("db_password = {v}\n"),
    "passwords in a line": secrets("password={v} "),
    "passwords in URLs": secrets("postgres://app:{v}@db{n}/x\n"),
    "passwords in prose": secrets("the password of host {n} is {v}\n"),
    "passwords in a table": secrets("| user{n} | password | {v} |\n"),
    "tokens": secrets("ghp_{t}\n"),
    "tokens with names": secrets("user{n}: ghp_{t}\n"),
    "wrapped tokens": repeated("ghp_abcdefghijkl\n"),
    "base64 of passwords": lambda _rng: base64.b64encode(b"password=aaaa1 " * 400).decode() + "\n",
}


def timed(text: str, runs: int) -> tuple[float, float]:
    """Shortest and median seconds of examining a text."""
    import retentive

    free = {"max_memory_bytes": 0, "max_memories": 0, "max_store_bytes": 0}
    command = {"command": "create", "path": "/memories/text.md", "file_text": text}
    took: dict[str, list[float]] = {"guarded": [], "free": []}
    for number in range(runs + 1):  # the first run compiles patterns
        with retentive.open("sqlite://") as place:
            for name, times in took.items():
                store = place.store(name)
                store.change_settings(free | ({} if name == "guarded" else _off()))
                small = {**command, "path": "/memories/first.md", "file_text": "The first command opens the store."}
                store.execute(small)
                before = process_time()
                reply = store.execute(command)
                seconds = process_time() - before
                if reply.is_error:
                    raise SystemExit(reply.text)
                if number or seconds > ENOUGH_S:
                    times.append(seconds)
        if took["guarded"] and sum(took["guarded"]) > ENOUGH_S:
            break
    base = median(took["free"] or [0.0])
    return max(min(took["guarded"]) - base, 0.0), max(median(took["guarded"]) - base, 0.0)


def _off() -> dict[str, object]:
    from retentive.values.settings import DEFAULTS

    names = ("sensitive", "sensitive_likely") if hasattr(DEFAULTS, "sensitive_likely") else ("sensitive",)
    return dict.fromkeys(names, "off")


def main() -> None:
    """Measure every input and print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bytes", type=int, default=1_000_000)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--only", action="append", choices=[*ORDINARY, *WORST])
    chosen = options.parse_args()
    found = []
    for name, make in (ORDINARY | WORST).items():
        if chosen.only and name not in chosen.only:
            continue
        part = make(Random(name))
        data = (part * (chosen.bytes // len(part) + 1)).encode()[: chosen.bytes]
        short, long = (data[:size].decode(errors="ignore") for size in (chosen.bytes // GROWTH, chosen.bytes))
        least, middle = timed(long, chosen.runs)
        growth = least / max(timed(short, chosen.runs)[0], 1e-6)
        print(f"{name}: {least * 1000:.0f} ms, growth {growth:.1f}", file=sys.stderr)
        known = {"text": name, "worst_case": name in WORST, "bytes": len(data)}
        found.append(known | {"least_s": least, "median_s": middle, "growth": growth})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
