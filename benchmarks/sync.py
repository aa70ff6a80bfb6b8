"""`retentive sync` of 10,000 files with a server, and what watching them costs while nothing happens.

    python benchmarks/sync.py [--quick]

The server runs on the same machine with one worker over SQLite. The files have 1 KB. `first` sends all of them,
`nothing` finds nothing to do, `second directory` writes all of them to an empty directory. `watch` is the time of a
processor that a watching process takes, without its start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from time import perf_counter

from candidates import memory_text
from figures import own_folder, parser, report, table, workplace
from server import served

SIZES = {"full": (10_000, 120.0), "quick": (1_000, 20.0), "tiny": (20, 1.0)}
"""Files, and seconds of watching."""


def fill(directory: Path, count: int) -> None:
    """Write the files, with a time in the past: files that just changed would be waited for."""
    for number in range(count):
        path = directory / f"{number // 100}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(memory_text(number))
        os.utime(path, (1_700_000_000, 1_700_000_000))


def synchronised(command: list[str], directory: Path, environment: dict[str, str]) -> str:
    """Seconds that one synchronisation takes."""
    begun = perf_counter()
    done = subprocess.run([*command, str(directory)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return f"{perf_counter() - begun:.2f} s"


def watched(command: list[str], directory: Path, environment: dict[str, str], span_s: float) -> str:
    """Share of a processor that watching takes, after the first round."""

    def cpu_s() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    with subprocess.Popen(
        [*command, str(directory), "--watch"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(min(10.0, 5 * span_s))
        before = cpu_s()
        time.sleep(span_s)
        share = (cpu_s() - before) / span_s
        process.send_signal(signal.SIGINT)
    return f"{share:.2%} of a core"


def main() -> None:
    """Run the benchmark from the command line."""
    chosen = parser(__doc__).parse_args()
    count, span_s = SIZES[chosen.size]
    with workplace(chosen.dir) as place:
        folder = own_folder(place, "sync")
        one, two = folder / "one", folder / "two"
        two.mkdir(parents=True)
        fill(one, count)
        with served(f"sqlite:///{folder / 'memory.db'}", 1) as (url, key, _):
            environment = os.environ | {"RETENTIVE_API_KEY": key, "XDG_STATE_HOME": str(folder / "state")}
            command = [str(Path(sys.executable).with_name("retentive")), "--at", url, "--store", "notes", "sync"]
            rows = [
                ("first", f"{count:,}", synchronised(command, one, environment)),
                ("nothing", f"{count:,}", synchronised(command, one, environment)),
                ("second directory", f"{count:,}", synchronised(command, two, environment)),
                ("watch", f"{count:,}", watched(command, one, environment, span_s)),
            ]
    report(chosen, table(("case", "files", "takes"), rows))


if __name__ == "__main__":
    main()
