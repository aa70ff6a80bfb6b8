"""Recall of evidence in the long chats of LoCoMo, ranked search beside plain BM25.

    python benchmarks/search/locomo.py --data locomo10.json

The data is `data/locomo10.json` of snap-research/LoCoMo on GitHub (CC BY-NC 4.0: fetch it for a run, do not commit it).
Each conversation is a store, and each session a memory: a line with the date, then a line for each turn, with the
caption of a shared picture. A question counts at k if all sessions with its evidence are among the first k results.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import retentive
from search.quality import Find, bm25, by_store

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D:?(\d+):\d+")
DEPTHS = (1, 5, 10)


def path_of(session: str) -> str:
    """Path of a session."""
    return f"/memories/session-{int(session):02}.md"


def sessions(chat: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and text of each session of a conversation."""
    for name, turns in chat.items():
        if found := _SESSION.fullmatch(name):
            lines = [str(chat[f"{name}_date_time"])]
            for turn in turns:
                picture = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
                lines.append(f"{turn['speaker']}: {turn['text']}{picture}")
            yield path_of(found[1]), "\n".join(lines) + "\n"


def questions(asked: list[dict[str, Any]], texts: dict[str, str]) -> Iterator[tuple[str, set[str]]]:
    """Each question with the paths of the sessions that hold its evidence."""
    for each in asked:
        needed = {path_of(number) for item in each["evidence"] for number in _EVIDENCE.findall(item)} & texts.keys()
        if needed:
            yield each["question"], needed


def main() -> None:
    """Print the recall at 1, 5 and 10, in percent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    chats = json.loads(parser.parse_args().data.read_text(encoding="utf-8"))
    hits: dict[str, list[list[bool]]] = {"ranked": [], "BM25": []}
    spent = dict.fromkeys(hits, 0.0)
    for chat in chats:
        texts = dict(sessions(chat["conversation"]))
        with retentive.open("sqlite://", sensitive="off", sensitive_likely="off") as place:
            store = place.store()
            for path, text in texts.items():
                store.create(path, text)
            finders: dict[str, Find] = {"ranked": by_store(store, "ranked"), "BM25": bm25(texts)}
            for question, needed in questions(chat["qa"], texts):
                for name, find in finders.items():
                    start = time.perf_counter()
                    found = find(question)
                    spent[name] += time.perf_counter() - start
                    hits[name].append([needed <= set(found[:depth]) for depth in DEPTHS])
    print(f"{len(hits['ranked'])} questions; recall in % at {DEPTHS}")
    for name, rows in hits.items():
        shares = [100 * sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(
            f"{name:8}", *(f"{share:6.1f}" for share in shares), f"  {1_000 * spent[name] / len(rows):.1f} ms a query"
        )


if __name__ == "__main__":
    main()
