"""Recall of LoCoMo's evidence within a budget of tokens, beside search and an index file; and how stable blocks are.

    python benchmarks/search/recall.py --data locomo10.json

The data is that of `locomo.py`. A question counts if all turns with its evidence are in the block. Search is the reply
of `memory_search`, cut at the budget; the index file has a line for each session: its path, date and first turn.
Then a store of all conversations gets 1,000 writes that share no content word with a question, and 20 questions are
asked again after each.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

import retentive
from retentive.search.recall import tokens_of
from search.locomo import path_of, sessions

BUDGETS = (200, 400, 800)
_TURN = re.compile(r"D:?(\d+):(\d+)")
_SEEN = 60  # characters of a turn that tell that it is in a text


def within(text: str, budget: int) -> str:
    """The lines at the beginning of a text that fit a budget."""
    lines = text.splitlines(keepends=True)
    while lines and tokens_of("".join(lines)) > budget:
        lines.pop()
    return "".join(lines)


def main() -> None:
    """Print the table, and the number of changed blocks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    chats = json.loads(parser.parse_args().data.read_text(encoding="utf-8"))
    names = [(name, budget) for name in ("recall", "search", "index file") for budget in BUDGETS]
    hits: dict[tuple[str, int], list[bool]] = {name: [] for name in names}
    sizes: dict[tuple[str, int], list[int]] = {name: [] for name in names}
    for chat in chats:
        texts = dict(sessions(chat["conversation"]))
        rows = {path: text.split("\n") for path, text in texts.items()}
        index = "".join(f"{path}: {each[0]}. {each[1]}\n" for path, each in rows.items())
        with retentive.open("sqlite://", sensitive="off", sensitive_likely="off") as place:
            store = place.store()
            for path, text in texts.items():
                store.create(path, text)
            tool = retentive.MemorySearchTool(store)
            for each in chat["qa"]:
                found = [(path_of(at), int(turn)) for item in each["evidence"] for at, turn in _TURN.findall(item)]
                turns = [rows[path][turn][:_SEEN] for path, turn in found if path in rows and turn < len(rows[path])]
                if not turns:
                    continue
                searched = str(tool.call({"query": each["question"][:1_000], "limit": 20}))
                for budget in BUDGETS:
                    blocks = {
                        "recall": store.recall(each["question"], budget_tokens=budget).text,
                        "search": within(searched, budget),
                        "index file": within(index, budget),
                    }
                    for name, block in blocks.items():
                        hits[name, budget].append(all(turn in block for turn in turns))
                        sizes[name, budget].append(tokens_of(block))
    print(f"{len(hits['recall', 400])} questions\n\n| block | budget | tokens (median) | evidence in it |")
    print("| :-- | --: | --: | --: |")
    for name, budget in names:
        share = sum(hits[name, budget]) / len(hits[name, budget])
        print(f"| {name} | {budget} | {median(sizes[name, budget]):.0f} | {share:.1%} |")
    changed = stability(chats)
    print(f"\nOf 20 blocks after 1,000 writes each, {sum(changed)} changed; of one at most {max(changed)}")


def stability(chats: list[dict[str, object]]) -> list[int]:
    """How often each of 20 blocks changes in 1,000 writes of made-up words: new memories, and lines in old ones."""
    chance, asked = random.Random(1), [str(each["question"]) for chat in chats for each in chat["qa"][:2]]  # type: ignore[index]
    with retentive.open("sqlite://", sensitive="off", sensitive_likely="off", max_memory_bytes=0) as place:
        store = place.store()
        for number, chat in enumerate(chats):
            for path, text in sessions(chat["conversation"]):  # type: ignore[arg-type]
                store.create(path.replace("session", f"chat-{number}"), text)
        paths = [memory.path for memory in store.memories()]
        before, changed = [store.recall(each).text for each in asked], [0] * len(asked)
        for number in range(1_000):
            line = " ".join(f"x{chance.randrange(5_000)}y" for _ in range(chance.randrange(5, 40))) + "\n"
            if number % 2:
                store.insert(chance.choice(paths), chance.randrange(3), line)
            else:
                store.create(f"/memories/new-{number}.md", line * 5)
            after = [store.recall(each).text for each in asked]
            changed = [count + (one != other) for count, one, other in zip(changed, before, after, strict=True)]
            before = after
    return changed


if __name__ == "__main__":
    main()
