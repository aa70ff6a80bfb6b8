"""Tokens of an agent over 41 turns, with the prompt cache and without it: `python benchmarks/agent_cost.py [--json]`.

The agent reads 40 notes of 2,000 tokens, one in each turn, and answers. Prices are relative to an input token: a token
written to the cache costs 1.25, a token read from it 0.1. Source: "Prompt caching", pricing. The scripted Claude counts
the tokens; a real tokenizer counts differently.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from anthropic import Anthropic

import retentive
from retentive.agent import Agent, Budget, UsageReport
from retentive.testing.scripted_claude import Call, Prompt, scripted_claude

NOTES = 40
NOTE_CHARS = 8_000  # 2,000 tokens
WRITE_PRICE, READ_PRICE = 1.25, 0.1


def next_turn(prompt: Prompt) -> Call | str:
    """View the next note, or answer."""
    done = len(prompt.calls)
    return Call({"command": "view", "path": f"/memories/{done}.md"}) if done < NOTES else "All notes are read."


def measured(*, cache: bool) -> dict[str, Any]:
    """Tokens of a run, by price."""
    with retentive.open("sqlite://", view_chars=0) as opened, scripted_claude(next_turn) as server:
        store = opened.store()
        for number in range(NOTES):
            text = f"{number} " * (NOTE_CHARS // len(f"{number} "))
            store.execute({"command": "create", "path": f"/memories/{number}.md", "file_text": text})
        client = Anthropic(base_url=server.url, api_key="none needed")
        with Agent(client, memory=store, cache=cache, budget=Budget(max_turns=NOTES + 2)) as agent:
            reports = [event.usage for event in agent.run("Read all notes.") if isinstance(event, UsageReport)]
    full = sum(one.input_tokens for one in reports)
    written = sum(one.cache_creation_tokens for one in reports)
    read = sum(one.cache_read_tokens for one in reports)
    price = full + WRITE_PRICE * written + READ_PRICE * read
    return {"turns": len(reports), "full": full, "written": written, "read": read, "full_price_tokens": round(price)}


def main() -> None:
    """Print both runs."""
    rows = {"without cache": measured(cache=False), "with cache": measured(cache=True)}
    if "--json" in sys.argv[1:]:
        print(json.dumps(rows))
        return
    print(f"{'':14} {'turns':>5} {'full':>10} {'written':>9} {'read':>10} {'full-price tokens':>18}")
    for name, row in rows.items():
        print(
            f"{name:14} {row['turns']:5} {row['full']:10,} {row['written']:9,} {row['read']:10,}"
            f" {row['full_price_tokens']:18,}"
        )


if __name__ == "__main__":
    main()
