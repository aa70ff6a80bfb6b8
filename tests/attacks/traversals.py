"""Paths that try to leave `/memories`, and harmless lookalikes."""

from __future__ import annotations

import itertools
import random

DOTS = [
    "..",
    "%2e%2e",
    "%2E%2E",
    ".%2e",
    "%2e.",
    "%252e%252e",
    "%25252e%25252e",
    "%25%32%65%25%32%65",
    "．．",
    ".．",
    "․․",  # one dot leaders
    "‥",  # a two dot leader
    "%EF%BC%8E%EF%BC%8E",
    "%25EF%25BC%258E.",
    "％2e％2e",
    "％２ｅ％２ｅ",
    "%e2%80%a5",
    "%e2%80%a4%2e",
]
SLASHES = [
    "/",
    "//",
    "%2f",
    "%2F",
    "%252f",
    "%25252f",
    "／",
    "%EF%BC%8F",
    "％2f",
    "\\",
    "\\/",
    "%5c",
    "%255c",
    "＼",
    "﹨",
    "%EF%BC%BC",
    "/./",
    "/%2e/",
]
ENDS = ["", "/", "canary.txt", "outside/canary.txt", "etc/passwd"]

OUTSIDE = [
    "",
    "/",
    "..",
    "../memories",
    "memories",
    "memories/../outside/canary.txt",
    "./memories/a.txt",
    "/memoriesfoo",
    "/memoriesfoo/canary.txt",
    "/memories../outside/canary.txt",
    "/memories..",
    "/memories%2f..%2foutside%2fcanary.txt",
    "/memories%2fa.txt",
    "/memories\\..\\outside\\canary.txt",
    "/memories;/../outside/canary.txt",
    "/memories\0/../outside/canary.txt",
    "/memories ",
    " /memories",
    "/memories\n",
    "/Memories",
    "/MEMORIES/a.txt",
    "//memories",
    "//memories/a.txt",
    "/./memories/a.txt",
    "/../memories/a.txt",
    "／memories/a.txt",
    "/ｍemories/a.txt",
    "/memo\u0301ries/a.txt",
    "/memories\u0301/a.txt",
    "/memories\u0338/a.txt",
    "/x/../memories/a.txt",
    "/etc/passwd",
    "/proc/self/root/etc/passwd",
    "/dev/stdin",
    "~/canary.txt",
    "~root/canary.txt",
    "$HOME/canary.txt",
    "C:\\memories\\a.txt",
    "\\memories\\a.txt",
    "\\\\host\\share\\canary.txt",
    "\\\\?\\C:\\canary.txt",
    "file:///memories/../outside/canary.txt",
    "file:///etc/passwd",
    "http://localhost/memories/a.txt",
    "%2fmemories%2fa.txt",
    "%2e%2e/%2e%2e/outside/canary.txt",
]

INSIDE = [
    "/memories/.",
    "/memories/..",
    "/memories/../memories/a.txt",
    "/memories/../memories",
    "/memories/../.retentive/memory.db",
    "/memories/../stores",
    "/memories/d/../../outside",
    "/memories/d/.",
    "/memories/d/./a.txt",
    "/memories/a.txt/..",
    "/memories/a.txt/../../../outside/canary.txt",
    "/memories/missing/../../../outside/canary.txt",
    "/memories//..//..//outside/canary.txt",
    "/memories/a.txt\0",
    "/memories/a.txt\0.md",
    "/memories/a.txt%00",
    "/memories/a.txt%00.md",
    "/memories/a.txt%2500.md",
    "/memories/%0a",
    "/memories/%0d%0aSet-Cookie",
    "/memories/..\u200b",
    "/memories/.\u200d./canary.txt",
    "/memories/\u202e..",
    "/memories/.\u00ad.",
    "/memories/\ufeff../canary.txt",
    "/memories/..\ud800",
    "/memories/\udce2\udc80\udca5",
    "/memories/\x1b[2J",
    "/memories/\x7f",
    "/memories/\u0085",
    "/memories/\u2028..",
    "/memories/C:\\canary.txt",
    "/memories/..;/canary.txt/..",
    "/memories/....//../canary.txt",
    "/memories/..././../canary.txt",
    "/memories/" + "../" * 1_000 + "etc/passwd",
    "/memories" + "/.." * 19,
    "/memories/" + "%2e%2e%2f" * 25,
    "/memories/" + "%" + "25" * 100 + "2e%2e",
    "/memories/" + "x" * 256,
    "/memories/" + "é" * 128,
    "/memories" + ("/" + "x" * 250) * 5,
    "/memories" + "/x" * 21,
    "/memories" + "/x" * 5_000,
]

# These do not decode to a traversal: they are invalid UTF-8 or unusual names. Storing them is allowed.
HARMLESS = [
    "/memories/..%c0%af",
    "/memories/%c0%ae%c0%ae",
    "/memories/%c0%ae%c0%ae%c0%af%c0%ae%c0%ae%c0%afcanary.txt",
    "/memories/%c0%ae%c0%ae/canary.txt",
    "/memories/%e0%80%ae%e0%80%ae/%e0%80%af",
    "/memories/%f0%80%80%ae/canary.txt",
    "/memories/%f8%80%80%80%ae",
    "/memories/..%c1%9c..%c1%9ccanary.txt",
    "/memories/..%255/canary.txt",
    "/memories/%u002e%u002e/canary.txt",
    "/memories/..%u2215canary.txt",
    "/memories/....",
    "/memories/..../canary.txt",
    "/memories/... /canary.txt",
    "/memories/.. ",
    "/memories/ ..",
    "/memories/.. /canary.txt",
    "/memories/..;/canary.txt",
    "/memories/…/canary.txt",
    "/memories/∕..∕canary.txt",
    "/memories/⁄canary.txt",
    "/memories/C:",
    "/memories/CON",
    "/memories/~/canary.txt",
    "/memories/$HOME/canary.txt",
    "/memories/`id`",
    "/memories/$(id)",
    "/memories/;id",
    "/memories/-rf",
    "/memories/*",
    "/memories/' OR 1=1 --",
    "/memories/{path}",
    "/memories/{0.__class__}",
    "/memories/%s%n%d",
    "/memories/memories/canary.txt",
    "/memories/.retentive/memory.db",
    "/memories/stores/x/memories/a",
    "/memories/\u0338",
    "/memories/d/\u0301",
]


def mixed() -> list[str]:
    """Return every spelling of two dots with every spelling of a slash, below the root and below a directory."""
    paths: list[str] = []
    for start, dots, slash in itertools.product(("/memories/", "/memories/d/", "/memories/d//"), DOTS, SLASHES):
        end = ENDS[len(paths) % len(ENDS)]
        paths.append(f"{start}{dots}{slash}{dots}{slash}{end}")
    return paths


def scrambled(count: int, seed: int) -> list[str]:
    """Random spellings of two dots and slashes, some of them percent-encoded several times."""
    chance = random.Random(seed)
    return [_scramble(chance) for _ in range(count)]


def _scramble(chance: random.Random) -> str:
    pieces = [chance.choice(ways) for _ in range(chance.randint(1, 4)) for ways in (DOTS, SLASHES)]
    marks = [mark for piece in pieces for mark in _marks(piece)]
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(len(marks))
        marks[at] = "".join(f"%{byte:02x}" for byte in marks[at].encode())
    return f"/memories/{chance.choice(['', 'd/', 'a.txt/'])}{''.join(marks)}{chance.choice(ENDS)}"


def _marks(piece: str) -> list[str]:
    """Split a text into the units that may be percent-encoded again.

    An escape is one unit; half an escape has no meaning.
    """
    return [piece] if "%" in piece or "％" in piece else list(piece)
