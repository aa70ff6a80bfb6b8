"""`retentive sync` of 10,000 files with a server, and what watching them costs while nothing happens.

    python benchmarks/sync.py [--quick] [--json FILE]

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
from figures import Sheet, announce, judged, own_folder, parser, surroundings, workplace, write_json
from server import served

FILES = {"full": 10_000, "quick": 1_000, "tiny": 20}
WATCH_S = {"full": 120.0, "quick": 20.0, "tiny": 1.0}
FIRST_S, WATCH_SHARE = 30.0, 0.01


def fill(directory: Path, count: int) -> None:
    """Write the files, with a time in the past: files that just changed would be waited for."""
    for number in range(count):
        path = directory / f"{number // 100}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(memory_text(number))
        os.utime(path, (1_700_000_000, 1_700_000_000))


def synchronised(command: list[str], directory: Path, environment: dict[str, str]) -> float:
    """Seconds that one synchronisation takes."""
    begun = perf_counter()
    done = subprocess.run([*command, str(directory)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return perf_counter() - begun


def watched(command: list[str], directory: Path, environment: dict[str, str], span_s: float) -> float:
    """Share of a processor that watching takes, after the first round."""
    with subprocess.Popen(
        [*command, str(directory), "--watch"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()
        time.sleep(min(10.0, 5 * span_s))
        before = _cpu_s(process.pid)
        time.sleep(span_s)
        share = (_cpu_s(process.pid) - before) / span_s
        process.send_signal(signal.SIGINT)
    return share


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the benchmark from the command line."""
    chosen = parser(__doc__).parse_args()
    count, span_s = FILES[chosen.size], WATCH_S[chosen.size]
    around = surroundings(chosen.dir) | {"files": count, "watch_s": span_s}
    announce(around)
    with workplace(chosen.dir) as place:
        folder = own_folder(place, "sync").resolve()
        one, two = folder / "one", folder / "two"
        two.mkdir(parents=True)
        fill(one, count)
        with served(f"sqlite:///{folder / 'memory.db'}", 1) as (url, key, _):
            environment = os.environ | {"RETENTIVE_API_KEY": key, "XDG_STATE_HOME": str(folder / "state")}
            command = [str(Path(sys.executable).with_name("retentive")), "--at", url, "--store", "notes", "sync"]
            times = {
                "first": synchronised(command, one, environment),
                "nothing": synchronised(command, one, environment),
                "second directory": synchronised(command, two, environment),
            }
            share = watched(command, one, environment, span_s)
    bars = {"first": FIRST_S}
    rows = [
        [name, f"{count:,}", f"{seconds:.2f} s", f"{bars[name]:.0f} s" if name in bars else "",
         judged(seconds, bars.get(name), at_most=True)]
        for name, seconds in times.items()
    ]  # fmt: skip
    rows.append(["watch", f"{count:,}", f"{share:.2%} of a core", "1 %", judged(share, WATCH_SHARE, at_most=True)])
    records: list[dict[str, object]] = [{"case": name, "seconds": seconds} for name, seconds in times.items()]
    sheet = Sheet("Sync", ("case", "files", "takes", "bar", ""), rows, [*records, {"case": "watch", "share": share}])
    sheet.show()
    if chosen.json:
        write_json(chosen.json, "sync", chosen.size, around, [sheet])


if __name__ == "__main__":
    main()
