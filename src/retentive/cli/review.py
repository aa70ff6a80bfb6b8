"""`review`: list, accept and refuse proposed changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from retentive.cli import layouts, output
from retentive.cli.exits import status_of
from retentive.cli.location import Location
from retentive.cli.parameters import user_by_default
from retentive.cli.undoing import mode_of
from retentive.review.session import DecisionOutcome, Proposal, ProposedChange
from retentive.values.diff import DiffLine, as_text, unified

F = TypeVar("F", bound=Callable[..., object])
_NONE = "No proposed changes."


@output.group("review", default="list")
def review() -> None:
    """Review proposed changes, and accept or refuse them.

    `retentive settings set 'review=["session:*"]'` puts actors under review. A change of such an actor becomes a
    proposal. Until somebody accepts the proposal, only this actor sees the change.
    """


def _chosen(command: F) -> F:
    """Decorator that adds the arguments and options which select proposals."""
    actor = click.option(
        "--by", "whose", metavar="ACTOR", callback=user_by_default, help="With --all: only proposals of this actor."
    )
    every = click.option("--all", "everything", is_flag=True, help="Select all proposals.")
    return click.argument("ids", nargs=-1, metavar="[ID]...")(every(actor(command)))


@output.command("list", group=review, json="Print a JSON list.")
@click.option("--by", "whose", metavar="ACTOR", callback=user_by_default, help="List only proposals of this actor.")
def show_list(location: Location, *, whose: str | None) -> None:
    """List proposed changes, oldest first.

    Prints a table on a terminal. In a pipe each line has an id, time, actor and summary, separated by tabs.
    """
    with location.existing() as store:
        found = store.review.pending(actor=whose)
    rows = ((each.id, output.local_time(each.at), str(each.actor or ""), each.summary) for each in found)
    output.emit(
        map(_object, found),
        plain=((each.id, output.exact_time(each.at), str(each.actor or ""), each.summary) for each in found),
        shown=[layouts.Table(("id", "changed", "actor", "summary"), rows, empty=_NONE, folds=True, shortens=["actor"])],
    )


@output.command("show", group=review, json="Print a JSON object with the texts before and after.")
@click.argument("proposal_id", metavar="ID")
def show(location: Location, *, proposal_id: str) -> None:
    """Show a proposed change as a unified diff."""
    with location.existing() as store:
        found, texts = store.review.show(proposal_id)
    head = f"{found.id}, by {found.actor or 'an unnamed actor'} at {output.local_time(found.at)}"
    lines = [DiffLine("header", head)]
    for change, before, after in texts:
        lines += _diff(change, before, after)
    changes = [_change_object(change) | {"text_before": before, "text_after": after} for change, before, after in texts]
    output.emit(_object(found) | {"changes": changes}, plain=as_text(lines), shown=[layouts.Diff(lines)])


@output.command("accept", group=review, json="Print a JSON object with the result.")
@_chosen
@click.option("--merge", is_flag=True, help="Merge with later changes of the same memory, line by line.")
@click.option("--force", is_flag=True, help="Discard later changes of the same memories and paths.")
@click.option("--partial", is_flag=True, help="Accept what --merge can accept, and list the rest.")
def accept(
    location: Location,
    *,
    ids: tuple[str, ...],
    everything: bool,
    whose: str | None,
    merge: bool,
    force: bool,
    partial: bool,
) -> None:
    """Accept proposed changes: all selected changes or none.

    If the same memories were changed in the meantime, nothing is done (with --partial, the rest is done), the conflicts
    are printed, and the status is 6. The history records each change with the actor who proposed it.
    """
    _check(ids, everything=everything, whose=whose)
    mode = mode_of(merge=merge, force=force, partial=partial)
    with location.existing() as store:
        outcome = store.review.accept(ids or None, actor=store.actor, proposed_by=whose, mode=mode)
    can_leave = (everything or len(ids) > 1) and not partial
    _emit("accepted", outcome, ["--partial accepts the others."] if can_leave else [])


@output.command("refuse", group=review, json="Print a JSON object with the result.")
@_chosen
def refuse(location: Location, *, ids: tuple[str, ...], everything: bool, whose: str | None) -> None:
    """Permanently remove proposed changes, and the proposals that build on them."""
    _check(ids, everything=everything, whose=whose)
    with location.existing() as store:
        outcome = store.review.refuse(ids or None, actor=store.actor, proposed_by=whose)
    _emit("refused", outcome)


def _check(ids: Sequence[str], *, everything: bool, whose: str | None) -> None:
    if bool(ids) == everything:
        raise click.UsageError("Specify proposal IDs or --all.")
    if whose is not None and not everything:
        raise click.UsageError("--by needs --all.")


def _emit(done: str, outcome: DecisionOutcome, advice: Sequence[str] = ()) -> None:
    lines = [f"{each} was {done}: {outcome.summaries.get(each, '')}".rstrip(": ") for each in outcome.done]
    lines += [f"{each} was {done} too, because it builds on a {done} proposal" for each in outcome.with_them]
    lines += [f"{each} was already {done}" for each in outcome.already]
    left = "not everything" if lines else "nothing"
    obstacles = [f"{each.proposal_id}: {each.text}" for each in outcome.obstacles]
    output.emit(
        {
            done: outcome.done,
            "already": outcome.already,
            **({"with_them": outcome.with_them} if done == "refused" else {}),
            "obstacles": [
                {"id": each.proposal_id, **output.attributes(each, "path", "text")} for each in outcome.obstacles
            ],
        },
        plain="".join(f"{line}.\n" for line in lines) or ("" if obstacles else f"{_NONE}\n"),
        error="\n".join([f"Error: {left} was {done}.", *obstacles]) if obstacles else "",
        notes=advice if obstacles else (),
        status=status_of("conflict") if obstacles else 0,
    )


def _diff(change: ProposedChange, before: str | None, after: str | None) -> list[DiffLine]:
    head = DiffLine("header", str(change))
    if change.operation == "renamed":
        return [head]
    old = None if change.operation == "created" else before or ""
    new = None if change.operation == "deleted" else after or ""
    return [head, *unified(old, new, old_name=change.before or "", new_name=change.path or "")]


def _object(proposal: Proposal) -> dict[str, object]:
    changes = [_change_object(change) for change in proposal.changes]
    return output.attributes(proposal, "id", "actor", "at") | {"changes": changes}


def _change_object(change: ProposedChange) -> dict[str, object]:
    paths = {"path_before": change.before, "path": change.path}
    return {"operation": change.operation, **paths, "size_bytes": change.size_bytes}
