"""`review` and `trust`: decide about proposed changes, and about memories that are not trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from retentive.cli import output
from retentive.cli.exits import status_of
from retentive.cli.location import Location
from retentive.cli.options import Group, command
from retentive.cli.parameters import (
    complete_stores,
    flag,
    mode_options,
    named,
    option,
    path_argument,
    path_option,
    user_by_default,
)
from retentive.engine.visibility import LEVELS, TRUSTED, Level
from retentive.history.plan import Mode
from retentive.review.session import DecisionOutcome, Proposal, Texts
from retentive.values.diff import DiffLine, unified
from retentive.values.paths import ROOT

_NONE = "No proposed changes."
_DOUBTED = [level for level in LEVELS if level != TRUSTED]


@click.group("review", cls=Group, default="list")
def review() -> None:
    """Review proposed changes, and accept or refuse them.

    `retentive settings set 'review=["session:*"]'` puts actors under review. A change of such an actor becomes a
    proposal. Until somebody accepts the proposal, only this actor sees the change.
    """


_by = option("--by", "whose", "ACTOR", "Only the proposals of this actor.", callback=user_by_default)
_session = option("--session", "SESSION", "Only the proposals made in this session.")


def _chosen(function: Callable[..., None]) -> Callable[..., None]:
    """Decorator that adds the arguments and options which select proposals."""

    @click.argument("ids", nargs=-1, metavar="[ID]...")
    @flag("--all", "everything", "All proposals.")
    @_by
    @_session
    @wraps(function)
    def choosing(location: Location, ids: Sequence[str], *, everything: bool, whose: str | None, **given: Any) -> None:
        if bool(ids) == (everything or whose is not None or given["session"] is not None):
            raise click.UsageError("Specify proposal IDs, --all, --by ACTOR or --session SESSION.")
        function(location, ids, whose=whose, **given)

    return choosing


@command("list", group=review, json="Print a JSON list.")
@_by
@_session
@flag("--decided", "The newest decisions instead, newest first.")
def list_proposals(location: Location, *, whose: str | None, session: str | None, decided: bool) -> None:
    """List proposed changes, oldest first.

    In a pipe each line has an id, time, actor and summary, separated by tabs. A decision has `accepted` or `refused`
    instead of the summary, and the actor who decided.
    """
    if decided and (whose or session):
        raise click.UsageError("--decided lists the decisions on all proposals; leave out --by and --session.")
    with location.existing() as store:
        if decided:
            made = [(each, "accepted" if each.accepted else "refused") for each in store.review.decisions()]
            rows = [(each.proposal_id, each.at, each.actor, verb, each.by) for each, verb in made]
            table = output.table(rows, ("id", "time", "actor", "decision", "by"), "No decisions.", shortens=["actor"])
            names = "proposal_id", "accepted", "actor", "by", "at"
            output.emit((output.attributes(each, *names) for each, _ in made), table)
            return
        found = store.review.pending(actor=whose, session=session)
    columns = {"id": "id", "time": "at", "actor": "actor", "summary": "summary"}
    output.emit(map(_object, found), output.table(found, columns, empty=_NONE, folds=True, shortens=["actor"]))


@command(
    "show", group=review, json="Print a JSON object with the texts before and after; a list unless one ID is given."
)
@_chosen
def show(location: Location, ids: Sequence[str], *, whose: str | None, session: str | None) -> None:
    """Show proposed changes as unified diffs."""
    with location.existing() as store:
        chosen = ids or [each.id for each in store.review.pending(actor=whose, session=session)]
        shown = [_diff(*store.review.show(each)) for each in chosen]
    values = [value for value, _ in shown]
    output.emit(
        values[0] if len(ids) == 1 else values, *(output.diff(lines) for _, lines in shown), "" if shown else _NONE
    )


def _diff(found: Proposal, texts: Texts) -> tuple[dict[str, Any], list[DiffLine]]:
    head = f"{found.id}, by {found.actor or 'an unnamed actor'} at {output.local_time(found.at)}"
    lines = [DiffLine("header", head)]
    value = _object(found)
    for (change, before, after), changed in zip(texts, value["changes"], strict=True):
        changed |= {"text_before": before, "text_after": after}
        lines.append(DiffLine("header", str(change)))
        if change.operation != "renamed":
            old = None if change.operation == "created" else before or ""
            new = None if change.operation == "deleted" else after or ""
            lines += unified(old, new, old_name=change.before or "", new_name=change.path or "")
    return value, lines


@command("accept", group=review, json="Print a JSON object with the result.")
@_chosen
@mode_options(
    merge="Merge with later changes of the same memory, line by line.",
    force="Discard later changes of the same memories and paths.",
    partial="Accept what --merge can accept, and list the rest.",
)
def accept(location: Location, ids: Sequence[str], *, whose: str | None, session: str | None, mode: Mode) -> None:
    """Accept proposed changes: all selected changes or none.

    If the same memories were changed in the meantime, nothing is done (with --partial, the rest is done), the conflicts
    are printed, and the status is 6. The history records each change with the actor who proposed it.
    """
    with location.existing() as store:
        outcome = store.review.accept(ids or None, actor=store.actor, proposed_by=whose, session=session, mode=mode)
    _emit("accepted", outcome, "--partial accepts the others." if len(ids) != 1 and mode != "partial" else "")


@command("refuse", group=review, json="Print a JSON object with the result.")
@_chosen
def refuse(location: Location, ids: Sequence[str], *, whose: str | None, session: str | None) -> None:
    """Remove proposed changes permanently, and those that build on them."""
    with location.existing() as store:
        outcome = store.review.refuse(ids or None, actor=store.actor, proposed_by=whose, session=session)
    _emit("refused", outcome)


def _emit(done: str, outcome: DecisionOutcome, advice: str = "") -> None:
    lines = [f"{each} was {done}: {outcome.summaries.get(each, '')}".rstrip(": ") for each in outcome.done]
    lines += [f"{each} was {done} too, because it builds on a {done} proposal" for each in outcome.with_them]
    lines += [f"{each} was already {done}" for each in outcome.already]
    obstacles = [f"{each.proposal_id}: {each.text}" for each in outcome.obstacles]
    left = f"Error: {'not everything' if lines else 'nothing'} was {done}."
    output.emit(
        output.attributes(outcome, "done", "already", "with_them", "obstacles"),
        "".join(f"{line}.\n" for line in lines) or ("" if obstacles else _NONE),
        error="\n".join([left, *obstacles]) if obstacles else "",
        notes=[advice] if obstacles and advice else [],
        status=status_of("conflict") if obstacles else 0,
    )


def _object(proposal: Proposal) -> dict[str, Any]:
    changes = [
        {"operation": each.operation, "path_before": each.before, "path": each.path, "size_bytes": each.size_bytes}
        for each in proposal.changes
    ]
    return output.attributes(proposal, "id", "actor", "session", "at") | {"changes": changes}


@command(json='Print a JSON object: {"proposal_id", "path", "memories", "versions"}.')
@path_argument("path")
@option("--to", "KEY", "Key of the other store.", required=True, shell_complete=complete_stores)
@path_option("--as", "new_path", metavar="PATH", help="Path there; default: the same.")
def promote(location: Location, path: str, *, to: str, new_path: str | None) -> None:
    """Propose a memory, or all memories below a directory, to another memory store, with their history.

    Somebody else accepts the proposal there with `retentive --store KEY review accept`. Then the versions are recorded
    there with their authors, times and texts, as far as the settings there keep and allow them. Redacted and hidden
    versions are left out.

    \b
    retentive --store mine promote runbook.md --to team
    """
    with location.opened() as found:
        store, target = location.chosen(found), replace(location, store_key=to).chosen(found)
        made = store.promote(named(store, path), target, new_path=new_path, actor=store.actor)
    counts = f"{output.counted(made.memories, 'memory')} with {output.counted(made.versions, 'version')}"
    said = f"{made.proposal_id} awaits review in {to}: {counts}, at {made.path}."
    output.emit(output.attributes(made, "proposal_id", "path", "memories", "versions"), said)


@click.group("trust", cls=Group, default="list")
def trust() -> None:
    """List the memories that are not trusted, confirm them, and put actors, sessions or sources in quarantine.

    `retentive settings set 'trust={"session:*": "unconfirmed"}'` sets the level of trust
    for changes by actors that match session:*.
    """


@command("list", group=trust, json="Print a JSON list.")
@path_argument("path", default=ROOT)
@click.option("--trust", "level", type=click.Choice(_DOUBTED), help="Only memories at this level.")
def list_doubted(location: Location, path: str, *, level: Level | None) -> None:
    """List the memories that are not trusted, with the reasons. Hidden ones are included.

    In a pipe each line has a level, the path and the contributors, separated by tabs.
    """
    with location.existing() as store:
        found = store.trust.doubted(path, level=level)
    rows = [(each.level, each.path, "; ".join(each.contributors)) for each in found]
    columns = ("trust", "path", "because of")
    output.emit(found, output.table(rows, columns, "All memories are trusted.", shortens=columns[2:]))


@command("confirm", group=trust, json="Print a JSON list of paths.")
@path_argument("path")
def confirm(location: Location, path: str) -> None:
    """Trust the current text of a memory, or of all memories below a directory.

    If the memory was hidden, it becomes visible. Later changes by actors that are not trusted need a new confirmation.
    """
    with location.existing() as store:
        paths = store.trust.confirm(path, actor=store.actor)
    output.emit(paths, "".join(f"{each} is confirmed.\n" for each in paths) or "No memories.")


@command("quarantine", group=trust, json='Print a JSON object: {"pattern", "changed"}.')
@click.argument("pattern")
def quarantine(location: Location, pattern: str) -> None:
    """Hide all memories to which an actor, a session or a source contributed. They are hidden from everybody.

    PATTERN has the same form as the patterns in the setting `trust`: session:s1, user:* or
    'source:web:*'. The quarantine takes effect at once. Nothing is deleted; `retentive trust release` with the same
    pattern ends the quarantine.
    """
    with location.existing() as store:
        is_new = store.trust.quarantine(pattern, actor=store.actor)
    said = f"{pattern} {'is' if is_new else 'was already'} in quarantine."
    output.emit({"pattern": pattern, "changed": is_new}, said)


@command("release", group=trust, json='Print a JSON object: {"pattern", "changed"}.')
@click.argument("pattern")
def release(location: Location, pattern: str) -> None:
    """End the quarantine of the given pattern."""
    with location.existing() as store:
        was_there = store.trust.release(pattern, actor=store.actor)
    said = f"{pattern} {'is released' if was_there else 'was not in quarantine'}."
    output.emit({"pattern": pattern, "changed": was_there}, said)
