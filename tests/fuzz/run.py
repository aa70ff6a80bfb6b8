"""Runs a target of the fuzzer: `python tests/fuzz/run.py paths 3600`, or this file with TARGET SECONDS [SEED].

Inputs are seeds of the corpus with random changes. Inputs that fail are saved in `fuzz-findings/TARGET-DIGEST`, which
`python tests/fuzz/run.py TARGET FILE` runs again.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.targets import TARGETS, Target, corpus

FINDINGS = Path("fuzz-findings")
WORDS = (b"..", b"/", b"\0", b"%2e", b"\\", b"\xff", b"\xe2\x80\xae", b"javascript:", b"{", b'"', b"[", b"<", b"-")
MAX_INPUT_BYTES = 1 << 16


def changed(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """The bytes with one to four random changes."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(found))
        end = min(len(found), at + chance.choice((1, 1, 2, 8, 64, 512)))
        kind = chance.randrange(6)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            found[at:end] = b""
        elif kind == 2:
            found[at:at] = chance.choice(WORDS)
        elif kind == 3:
            found[at:at] = found[at:end] * chance.choice((1, 2, 16))
        elif kind == 4:
            found[at:end] = chance.randbytes(end - at)
        else:
            other = chance.choice(others)
            found[at:] = other[chance.randint(0, len(other)) :]
    return bytes(found[:MAX_INPUT_BYTES])


def inputs(name: str, seed: int) -> Iterator[bytes]:
    """The corpus, then endless changes of it. Equal seeds give equal inputs."""
    seeds, chance = corpus(name), random.Random(seed)
    yield from seeds
    while True:
        yield changed(chance.choice(seeds), seeds, chance)


def fuzz(name: str, seconds: float, seed: int = 0) -> tuple[int, list[bytes]]:
    """Run a target, over its corpus at least. Return the number of rounds and the inputs that failed, at most ten."""
    failed: list[bytes] = []
    rounds, until, all_seeds = 0, time.monotonic() + seconds, len(corpus(name))
    for data in inputs(name, seed):
        if len(failed) == 10 or (rounds >= all_seeds and time.monotonic() >= until):
            break
        rounds += 1
        if not passes(TARGETS[name], data):
            failed.append(data)
    return rounds, failed


def passes(target: Target, data: bytes) -> bool:
    """Run a target once. Print the exception of a failure."""
    try:
        target(data)
    except Exception:
        traceback.print_exc(limit=-6)
        return False
    return True


def main(name: str, what: str, seed: str = "0") -> int:
    """Run a target for some seconds, or once with the bytes of a file. Return the status of the process."""
    if Path(what).is_file():
        return not passes(TARGETS[name], Path(what).read_bytes())
    rounds, failed = fuzz(name, float(what), int(seed))
    for data in failed:
        FINDINGS.mkdir(exist_ok=True)
        file = FINDINGS / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}"
        file.write_bytes(data)
        print(f"failed: {file}")
    print(f"{name}: {rounds} inputs, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
