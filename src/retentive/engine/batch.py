"""Batches: several commands that run as one change. Either all take effect, or none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retentive.engine.command_handlers import CommandResult, RunCommand
from retentive.engine.context import StoreContext
from retentive.engine.guarded_writer import GuardedWriter
from retentive.engine.operation import WriteOperation
from retentive.errors import InvalidInput, Refused, RetentiveError
from retentive.storage.contract import Transaction
from retentive.values.commands import Append, Clear, Command, Create, Delete, View, Write, parse
from retentive.values.records import Recorded

MAX_BATCH = 100
"""Maximum number of commands in a batch. While a batch runs, all other writers of the memory store wait."""


@dataclass(frozen=True, slots=True)
class BatchStep:
    """Result of one command of a batch, and the ids of the versions that the command recorded."""

    result: CommandResult
    recorded: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True)
class Batch(WriteOperation[list[BatchStep]]):
    """Run commands in order, in one transaction. Each command sees the changes of the commands before it.

    If a command is refused, nothing changes. The `position` of the `Refused` error is the index of that command.
    """

    name = "batch"
    for_paths = True
    commands: tuple[RunCommand, ...]
    may_use_reserve: bool = False

    @property
    def allowed_when_archived(self) -> bool:  # type: ignore[override]  # depends on the commands
        """True if all commands only delete."""
        return all(each.allowed_when_archived for each in self.commands)

    def paths(self) -> tuple[str, ...]:
        """Return the canonical paths in the commands."""
        return tuple(dict.fromkeys(path for each in self.commands for path in each.paths()))

    def apply(self, tx: Transaction, writer: GuardedWriter) -> list[BatchStep]:
        """Run the commands."""
        steps: list[BatchStep] = []
        for position, each in enumerate(self.commands):
            before = len(writer.recorded)
            try:
                result = each.apply(tx, writer)
            except Refused as refusal:
                refusal.position = position
                raise
            steps.append(BatchStep(result, tuple(writer.recorded[before:])))
        return steps

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return the ids of the versions that each command recorded. A repeated request needs them."""
        return {"steps": [[each.result.version_id, each.recorded] for each in result]}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> list[BatchStep]:
        """Rebuild the results of the first run from `kept`, without the notes and snippets for replies."""
        return [
            BatchStep(CommandResult(version_id=version_id), tuple(Recorded(*each) for each in recorded))
            for version_id, recorded in kept["steps"]
        ]


def batch_of(context: StoreContext, commands: Sequence[object]) -> Batch:
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
            made.append(_run_command(given))
        except RetentiveError as error:
            raised = context.raised(error) if isinstance(error, Refused) else error
            raised.position = position
            raise raised from None
    return Batch(tuple(made), may_use_reserve=all(each.may_use_reserve for each in made))


def _run_command(given: object) -> RunCommand:
    if_version: object = None
    if isinstance(given, Mapping) and "if_version" in given:
        if_version = given["if_version"]
        given = {name: value for name, value in given.items() if name != "if_version"}
    if not isinstance(if_version, str | None):
        raise InvalidInput("`if_version` must be the id of a version")
    command = given if isinstance(given, Command) else parse_for_applications(given)
    if isinstance(command, View | Clear):
        raise InvalidInput(f"the command {command.name} cannot be part of a batch")
    return RunCommand(command, isinstance(command, Delete), if_version)


def parse_for_applications(raw: object) -> Command:
    """Parse the input of a tool call. Its command may also be `write` or `append`, with the same fields as `create`.

    Raises `Refused`.
    """
    name = raw.get("command") if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or name not in {"write", "append"}:
        return parse(raw)
    checked = parse({**raw, "command": "create"})
    assert isinstance(checked, Create)
    return (Write if name == "write" else Append)(checked.path, checked.file_text)
