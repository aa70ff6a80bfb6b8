"""`review`: listing, accepting and refusing proposed changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location, pass_location
from retentive.review.session import DecisionOutcome, Proposal, ProposedChange
from retentive.values.diff import DiffLine, as_text, unified

F = TypeVar("F", bound=Callable[..., object])
_NONE = "No proposed changes."
_NOWHERE = "/dev/null"  # as in every diff


@click.group("review")
def review() -> None:
    """Review proposed changes, and accept or refuse them.

    `retentive settings set 'review=["session:*"]'` puts actors under review. Their changes are proposals, which only
    they see until somebody accepts them.
    """


def _chosen(command: F) -> F:
    """Add the arguments that select proposals."""
    command = click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the result.")(command)
    command = click.option("--actor", "whose", metavar="ACTOR", help="With --all: only proposals of this actor.")(
        command
    )
    command = click.option("--all", "everything", is_flag=True, help="Select all proposals.")(command)
    return click.argument("ids", nargs=-1, metavar="[ID]...")(command)


@review.command("list", cls=output.Command)
@click.option("--actor", "whose", metavar="ACTOR", help="List only proposals of this actor.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@pass_location
def show_list(location: Location, *, whose: str | None, as_json: bool) -> None:
    """List proposed changes, oldest first.

    Prints a table on a terminal. In a pipe each line has an id, time, actor and summary, separated by tabs.
    """
    with location.existing() as store:
        found = store.review.pending(actor=whose)
    rows = ((each.id, output.local_time(each.at), str(each.actor or ""), each.summary) for each in found)
    output.emit(
        map(_object, found),
        as_json=as_json,
        plain=((each.id, output.timestamp(each.at), str(each.actor or ""), each.summary) for each in found),
        shown=[layouts.Table(("id", "changed", "actor", "summary"), rows, empty=_NONE, folds=True)],
    )


@review.command("show", cls=output.Command)
@click.argument("proposal_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with the texts before and after.")
@pass_location
def show(location: Location, *, proposal_id: str, as_json: bool) -> None:
    """Show a proposed change as a unified diff."""
    with location.existing() as store:
        found, texts = store.review.show(proposal_id)
    changes = [_change_object(change) | {"text_before": before, "text_after": after} for change, before, after in texts]
    head = f"{found.id}, by {found.actor or 'an unnamed actor'} at {output.timestamp(found.at)}"
    lines = [DiffLine("header", head)]
    for change, before, after in texts:
        lines += _diff(change, before or "", after or "")
    output.emit(
        _object(found) | {"changes": changes}, as_json=as_json, plain=as_text(lines), shown=[layouts.Diff(lines)]
    )


@review.command("accept", cls=output.Command)
@_chosen
@click.option("--merge", is_flag=True, help="Merge with later changes of the same memory, line by line.")
@click.option("--force", is_flag=True, help="Use the proposed text even if the memory was changed in the meantime.")
@pass_location
def accept(
    location: Location,
    *,
    ids: tuple[str, ...],
    everything: bool,
    whose: str | None,
    merge: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Accept proposed changes: all selected changes or none.

    If the same memories were changed in the meantime, nothing is done, the conflicts are printed, and the status is 6.
    In the history, the actor of each change is the actor who proposed it.
    """
    _check(ids, everything=everything, whose=whose)
    with location.existing() as store:
        outcome = store.review.accept(ids or None, actor=store.actor, proposed_by=whose, merge=merge, force=force)
    _emit("accepted", outcome, as_json=as_json)


@review.command("refuse", cls=output.Command)
@_chosen
@pass_location
def refuse(location: Location, *, ids: tuple[str, ...], everything: bool, whose: str | None, as_json: bool) -> None:
    """Permanently remove proposed changes, and the proposals that build on them."""
    _check(ids, everything=everything, whose=whose)
    with location.existing() as store:
        outcome = store.review.refuse(ids or None, actor=store.actor, proposed_by=whose)
    _emit("refused", outcome, as_json=as_json)


def _check(ids: Sequence[str], *, everything: bool, whose: str | None) -> None:
    if bool(ids) == everything:
        raise click.UsageError("Specify proposal IDs or --all.")
    if whose is not None and not everything:
        raise click.UsageError("--actor needs --all.")


def _emit(done: str, outcome: DecisionOutcome, *, as_json: bool) -> None:
    """Print the result, or the conflicts with their exit status."""
    lines = [f"{each} was {done}: {outcome.summaries.get(each, '')}".rstrip(": ") for each in outcome.done]
    lines += [f"{each} was {done} too, because it builds on another one" for each in outcome.with_them]
    lines += [f"{each} was already {done}" for each in outcome.already]
    obstacles = [f"Error: nothing was {done}.", *(f"{each.proposal_id}: {each.text}" for each in outcome.obstacles)]
    output.emit(
        _outcome_object(done, outcome),
        as_json=as_json,
        plain="" if outcome.obstacles else "".join(f"{line}.\n" for line in lines) or f"{_NONE}\n",
        error="\n".join(obstacles) if outcome.obstacles else "",
    )
    if outcome.obstacles:
        raise click.exceptions.Exit(status_of("conflict"))


def _diff(change: ProposedChange, before: str, after: str) -> list[DiffLine]:
    head = DiffLine("header", str(change))
    if change.operation == "renamed":
        return [head]
    old = _NOWHERE if change.operation == "created" else change.before or ""
    new = _NOWHERE if change.operation == "deleted" else change.path or ""
    return [head, *unified(before, after, old_name=old, new_name=new)]


def _object(proposal: Proposal) -> dict[str, object]:
    return {
        "id": proposal.id,
        "actor": None if proposal.actor is None else str(proposal.actor),
        "at": output.timestamp(proposal.at),
        "changes": [_change_object(change) for change in proposal.changes],
    }


def _change_object(change: ProposedChange) -> dict[str, object]:
    return {
        "operation": change.operation,
        "path_before": change.before,
        "path": change.path,
        "size_bytes": change.size_bytes,
    }


def _outcome_object(done: str, outcome: DecisionOutcome) -> dict[str, object]:
    obstacles = [
        {"id": each.proposal_id, "what": each.what, "path": each.path, "text": each.text} for each in outcome.obstacles
    ]
    with_them = {"with_them": list(outcome.with_them)} if done == "refused" else {}
    return {done: list(outcome.done), "already": list(outcome.already), **with_them, "obstacles": obstacles}
