"""Batches: several commands that run as one change. Either all take effect, or none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from retentive.engine.guard import Guard
from retentive.engine.handlers import RunCommand
from retentive.engine.memories import parse_for_applications
from retentive.engine.operation import CommandResult, Outcome, Plan, WriteOperation
from retentive.engine.pending import Pending
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.storage.contract import Snapshot
from retentive.values.commands import Clear, Command, View
from retentive.values.paths import MemoryPath
from retentive.values.records import Recorded

if TYPE_CHECKING:
    from retentive.engine.core import StoreCore

MAX_BATCH = 100
"""Maximum number of commands in a batch. While a batch runs, all other writers of the memory store wait."""


BatchStep: TypeAlias = tuple[CommandResult, Sequence[Recorded]]
"""Result of one command of a batch, and the ids of the versions that the command recorded."""


@dataclass(frozen=True, slots=True)
class Batch(WriteOperation[list[BatchStep]]):
    """Run commands in order, as one change. Each command sees the changes of the commands before it.

    If a command is refused, nothing changes. The `position` of the `Refused` error is the index of that command.
    """

    name = "batch"
    for_paths = True
    commands: tuple[RunCommand, ...]

    @property
    def allowed_when_archived(self) -> bool:  # type: ignore[override]  # depends on the commands
        return all(each.allowed_when_archived for each in self.commands)

    only_removes = allowed_when_archived

    def paths(self) -> tuple[MemoryPath, ...]:
        return tuple(dict.fromkeys(path for each in self.commands for path in each.paths()))

    def decide(self, view: Snapshot, guard: Guard) -> Plan[list[BatchStep]]:
        after = Pending(view)
        results: list[tuple[CommandResult, int]] = []
        for position, command in enumerate(self.commands):
            try:
                plan = command.decide(after, guard)
            except Refused as refusal:
                refusal.position = position
                raise
            after.add(plan.changes)
            results.append((plan.result, len(plan.changes)))

        def steps(_: Snapshot, recorded: Sequence[Recorded]) -> Plan[list[BatchStep]]:
            left = iter(recorded)
            return Plan([(result, list(islice(left, count))) for result, count in results])

        return Plan([], after.changes, afterwards=steps)

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        return {"steps": [[result.version_id, len(recorded)] for result, recorded in outcome.value()]}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> list[BatchStep]:
        left = iter(recorded)  # the results have no notes and snippets, which only replies need
        return [(CommandResult(version_id=before), list(islice(left, count))) for before, count in facts["steps"]]


def batch_of(context: StoreCore, commands: Sequence[object]) -> Batch:
    """Build a batch. Each command is a parsed command, or the raw input of a tool call with an optional `if_version`.

    Raises `InvalidInput` if the batch is empty or too long, or if it contains `view` or `clear`. For a malformed
    command, raises the error with the text that a model would get. The `position` of an error is the index of the
    command.
    """
    if isinstance(commands, str | bytes) or not 0 < len(commands) <= MAX_BATCH:
        raise InvalidInput(f"a batch must be a list of 1 to {MAX_BATCH} commands")
    made: list[RunCommand] = []
    for position, given in enumerate(commands):
        try:
            if_version: object = None
            if isinstance(given, Mapping) and "if_version" in given:
                if_version = given["if_version"]
                given = {name: value for name, value in given.items() if name != "if_version"}  # noqa: PLW2901 - the rest
            if not isinstance(if_version, str | None):
                raise InvalidInput("`if_version` must be the id of a version")
            command = given if isinstance(given, Command) else parse_for_applications(given)
            if isinstance(command, View | Clear):
                raise InvalidInput(f"the command {command.name} cannot be part of a batch")
            made.append(RunCommand(command, if_version))
        except RetentiveError as error:
            raised = context.raised(error) if isinstance(error, Refused) else error
            raised.position = position
            raise raised from None
    return Batch(tuple(made))
