"""The fault library: compiled by the local C compiler, loaded by LD_PRELOAD and controlled by ctypes."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# The order agrees with the enum in inject.c.
FAULTS = (
    "count",
    "kill_before",
    "kill_after",
    "eio",
    "enospc",
    "short",
    "short_then_enospc",
    "eio_from",
    "enospc_from",
    "sync_eio_from",
)
# The faults for each class of calls (inject.c). A kill at a call that only reads is omitted: it has the same
# effect as a kill at the previous change.
KILLS = ("kill_before", "kill_after")
FAULTS_OF = {
    "r": ("eio",),
    "w": (*KILLS, "eio", "enospc", "short", "short_then_enospc", "eio_from", "enospc_from"),
    "m": (*KILLS, "eio", "enospc", "eio_from", "enospc_from"),
    "c": (*KILLS, "eio", "eio_from"),
    "s": (*KILLS, "eio", "enospc", "eio_from", "sync_eio_from"),
    "l": (*KILLS, "eio"),
    "x": (*KILLS, "eio"),
}


@dataclass(frozen=True)
class Call:
    """One counted call, with its path relative to the root."""

    number: int
    kind: str
    name: str
    path: str

    def __str__(self) -> str:
        return f"call {self.number} {self.name} {self.path}"


class Injector:
    """The fault library as loaded into this process. It must have been preloaded."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._arm, self._disarm = library.cp_fault_arm, library.cp_fault_disarm
        self._arm.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int]
        self._arm.restype = None

    def arm(self, root: Path, *, fault: str, number: int, log_fd: int) -> None:
        """Start counting. The fault is injected at the call with this number below the root."""
        self._arm(os.fsencode(root.resolve()), number, FAULTS.index(fault), log_fd)

    def disarm(self) -> int:
        """Stop counting, and return how often the fault was injected."""
        return int(self._disarm())


def parse_log(text: str) -> list[Call]:
    """Return the calls in a log. Each line is written by one call, so a kill cannot truncate it."""
    parts = (line.split(" ", 3) for line in text.splitlines())
    return [Call(int(number), kind, name, path) for number, kind, name, path in parts]


def why_not() -> str | None:
    """Return the reason why faults cannot be injected here, or None."""
    if not sys.platform.startswith("linux"):
        return "fault injection needs LD_PRELOAD of Linux"
    if compiler() is None:
        return "fault injection needs a C compiler (cc, gcc or clang)"
    return None


def compiler() -> str | None:
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def build(directory: Path) -> Path:
    """Compile the shared library into this directory."""
    library = directory / "inject.so"
    source = Path(__file__).with_name("inject.c")
    command = [str(compiler()), "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wno-nonnull-compare"]
    done = subprocess.run(
        [*command, "-o", str(library), str(source), "-ldl"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return library
