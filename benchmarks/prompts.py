"""Cost of a prompt in Claude Code: the hook of the plugin, without and with recall of 400 tokens.

    python benchmarks/prompts.py [--quick]

Each prompt is a process, as Claude Code starts it, and a session of its own: five words of the memories, which are
those of `search/speed.py`. The last row goes through a server, which has its index. Processor time of the hook, which
varies less with the load of the machine.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import retentive
from figures import duration, parser, report, table, workplace
from retentive.storage.contract import Transaction, create_or_update
from search.speed import texts
from server import served
from startup import timed

SIZES = {"full": ((50, 500, 2_500), 20), "quick": ((50, 500), 5), "tiny": ((5,), 1)}
"""Memories of 2 KB, and prompts."""
RETENTIVE = str(Path(sys.executable).with_name("retentive"))
HOOK = [sys.executable, "-c", "import sys; from retentive.cli import main; sys.exit(main())", "hook", "prompt"]
OPTION, WAIT = "CLAUDE_PLUGIN_OPTION_", "RETENTIVE_HOOK_WAIT_S"


def filled(at: str, count: int) -> None:
    """Fill the memory store of the plugin."""

    def work(tx: Transaction) -> None:
        for number, text in enumerate(texts(count)):
            tx.record([create_or_update(None, f"/memories/m{number}.md", text.encode())], None)

    with retentive.open(at) as place:
        store = place.store("claude-code")
        store._core.backend.write(store.id, work)


def row(place: Path, name: str, prompts: list[str], **options: str) -> tuple[str, ...]:
    """Ask each prompt without and with recall, in turns. Returns a row."""
    home, given = place / name.replace(" ", "-"), place / "prompt"
    settings = {f"{OPTION}{key.upper()}": value for key, value in options.items()}
    environment = dict(os.environ) | settings | {"HOME": str(home), "XDG_STATE_HOME": str(home), WAIT: "60"}
    times: dict[str, list[float]] = {"0": [], "400": []}
    for turn, prompt in enumerate(["warm up", *prompts]):
        for tokens, took in times.items():
            given.write_text(json.dumps({"session_id": f"s{turn}", "prompt": prompt}))
            _, used = timed(HOOK, environment | {f"{OPTION}RECALL": tokens}, given)
            if turn:
                took.append(used / 1e6)
    logged = (home / "retentive" / "hooks" / "hook.log").read_text()
    sizes = [int(each) for each in re.findall(r"recall: (\d+) tokens", logged)][1:]
    without, with_recall = (median(took) for took in times.values())
    return name, duration(without), duration(with_recall), f"{median(sizes):.0f}", str(max(sizes))


def main() -> None:
    """Measure and print."""
    chosen = parser(__doc__).parse_args()
    counts, number = SIZES[chosen.size]
    chooser = random.Random(7)
    words = [word for text in texts(counts[0]) for word in text.split() if word.isalpha() and len(word) > 3]
    prompts = [" ".join(chooser.choices(words, k=5)) for _ in range(number)]
    rows = []
    with workplace(chosen.dir) as place:
        for count in counts:
            at = f"sqlite:///{place}/{count}.db"
            filled(at, count)
            rows.append(row(place, f"{count * 2 / 1000:g} MB", prompts, location=at))
        new = ["keys", "new", "hook", "--scope", "read", "--act-as", "session:*"]
        key = subprocess.run([RETENTIVE, "--at", at, *new], check=True, capture_output=True, text=True).stdout.strip()
        with served(at, 1) as (url, _, _):
            rows.append(row(place, f"{counts[-1] * 2 / 1000:g} MB on a server", prompts, location=url, token=key))
    report(chosen, table(("memories", "without recall", "with recall", "tokens", "at most"), rows))


if __name__ == "__main__":
    main()
