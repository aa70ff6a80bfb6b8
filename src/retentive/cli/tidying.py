"""`tidy`: Claude merges, corrects and sorts memories, and a person reviews what it proposes."""

from __future__ import annotations

from typing import Any

import click

from retentive.agent.events import Event, TokenUsage, ToolCall
from retentive.agent.tidy import BUDGET_TOKENS, MAX_DELETIONS, tidy_store, transcripts_in
from retentive.agent.turns import MODEL
from retentive.cli import output
from retentive.cli.location import Location
from retentive.cli.options import command
from retentive.cli.parameters import option


@command(json='Print a JSON object: {"actor", "proposals", "reason", "detail", "text", "tokens"}.')
@option("--budget", "budget_tokens", "TOKENS", "Most tokens.", type=click.IntRange(1), default=BUDGET_TOKENS)
@option("--max-deletions", "N", "Most memories to delete.", type=click.IntRange(0), default=MAX_DELETIONS)
@option("--model", "MODEL", "Model of the Claude API.", default=MODEL)
@option("--instructions", "TEXT", "What to pay attention to.", default="")
@option("--session", "sessions", "SESSION", "A session to learn from; repeatable.", multiple=True)
def tidy(location: Location, /, **options: Any) -> None:
    """Let Claude merge duplicates, correct stale facts, split and rename memories. You accept or refuse the result.

    Uses the API key in ANTHROPIC_API_KEY. Nothing changes until you accept the proposed changes. Memories with
    sensitive values are left out. A run goes on where an earlier one ended, until its changes were reviewed.

    \b
    retentive tidy
    retentive review show --by session:tidy-1f0c
    retentive review accept --by session:tidy-1f0c
    retentive undo --session tidy-1f0c
    """
    with location.opened() as found:
        store = location.chosen(found)
        done = tidy_store(store, transcripts=transcripts_in(found, store), on_event=_print, **options)
    facts = output.attributes(done, "actor", "proposals", "reason", "detail", "text")
    said = f"To review: {output.counted(len(done.proposals), 'proposed change')} of {done.actor}."
    notes = [] if done.reason == "end_turn" else [f"It ended early ({done.reason}); run it again to go on."]
    advice = [f"`retentive review show --by {done.actor}` shows the changes."] if done.proposals else []
    output.emit(facts | {"tokens": done.used.total_tokens}, done.text, said, notes=[*notes, *advice])


def _print(event: Event, _: TokenUsage) -> None:
    if isinstance(event, ToolCall) and event.input.get("command") != "view":
        names = ("command", "path", "old_path", "new_path")
        output.note(" ".join(str(event.input[name]) for name in names if name in event.input))
