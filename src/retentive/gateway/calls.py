"""Runs the calls of one request on its memory store, each once, and keeps their records. Used in worker threads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from retentive.errors import Refused, RetentiveError
from retentive.gateway import records
from retentive.gateway.records import KeptCall
from retentive.gateway.transform import OVER, UNRUN, is_memory, masked, paths_in
from retentive.gateway.turns import ModelTurn
from retentive.server.telemetry import STORAGE_CODES, described
from retentive.store import MemoryStore, core_of
from retentive.values.replies import Reply

T = TypeVar("T")
LOG = logging.getLogger("retentive.server")
UNAVAILABLE = "Error: The memory is unavailable at the moment. Go on without it, or try again later."
_UNSAVED = "[This text was not kept.]"
_MAX_ROUNDS_CHARS = 4 << 20
OnCall = Callable[[object, Reply], None]
"""Function that is called after each call of the memory tool, with its input and its reply."""


@dataclass(slots=True)
class MemoryCalls:
    """Memory of one request. `store` is opened for its caller, and `digest` identifies its body and its key.

    `has_failed` becomes true if the storage fails. A request never fails for that reason. `rounds` are the messages of
    the model that an earlier run of the request has kept.
    """

    store: MemoryStore
    digest: str
    session: str | None = None
    on_call: OnCall = lambda _input, _reply: None
    has_failed: bool = False
    rounds: list[dict[str, Any]] = field(default_factory=list)
    _keeps_rounds: bool = True

    def load(self, ids: Sequence[str]) -> dict[str, KeptCall]:
        """Read the rounds of an earlier run of the request, and return the calls that the client sent back."""
        core, now = core_of(self.store), time.time()

        def read() -> dict[str, KeptCall]:
            self.rounds, (found, is_old) = core.read(
                lambda view: (records.rounds(view, self.digest, now), records.calls(view, ids, core.scope, now))
            )
            if is_old:
                core.follow_up(lambda tx: records.use(tx, found.values(), now))
            return found

        return self._tried(read) or {}

    def answer(self, turn: ModelTurn, *, is_over: bool) -> list[KeptCall]:
        """Run the calls of a turn, in order, and return them with their replies.

        The message of the turn is kept first. If this process is killed, a repeated request runs only the calls that
        have no reply yet, and the ids of the others keep them from being run again. With `is_over`, none is run.
        """
        core, reason = core_of(self.store), UNRUN if not turn.may_run else OVER if is_over else None
        if reason is None:
            self._tried(partial(self._keep_round, turn))
        ids = [turn.client_id(use) for use in turn.uses]
        known = self._tried(lambda: core.read(lambda view: records.calls(view, ids, core.scope, time.time())[0])) or {}
        found = list[KeptCall]()
        for use in turn.uses:
            kept = known.get(turn.client_id(use))
            if kept is None:
                since = time.time()
                reply = self._run(turn, use) if reason is None else Reply(reason, is_error=True)
                kept = turn.answered(use, reply.text, is_error=reply.is_error)
                if reply.code not in STORAGE_CODES:  # after those, the call may be run again
                    self._tried(partial(self._keep_call, kept, since))
            found.append(kept)
        return found

    def _run(self, turn: ModelTurn, use: dict[str, Any]) -> Reply:
        who = {"run": str(turn.message.get("id"))[:200], "source": "gateway", "session": self.session}
        try:
            reply = self.store.execute(use["input"], tool_use_id=str(use["id"]), **who)
        except Exception as error:  # whatever happens, the call gets a reply
            LOG.error("a memory call failed: %s", described(error))  # noqa: TRY400 - a traceback may quote memories
            reply = Reply(UNAVAILABLE, is_error=True, code="unavailable")
        self.has_failed = self.has_failed or reply.code in STORAGE_CODES
        self.on_call(use["input"], reply)
        return reply

    def _keep_call(self, call: KeptCall, since: float) -> None:
        """Keep a call without its sensitive values."""
        core, mask = core_of(self.store), partial(self._masked, path="".join(call.paths[:1]))
        block = {**call.block, "input": masked(call.block["input"], mask)}
        kept = replace(call, block=block, reply=mask(call.reply), scope=core.scope)
        core.follow_up(lambda tx: records.keep_call(tx, kept, since, time.time()))

    def _keep_round(self, turn: ModelTurn) -> None:
        """Keep the message of a turn, unless it has a sensitive value in a text that the client needs unchanged."""
        if turn.number <= len(self.rounds) or not self._keeps_rounds:
            return
        content = [
            {**block, "input": masked(block["input"], self._masked)} if is_memory(block) else block
            for block in turn.content
        ]
        others = [block for block in content if not is_memory(block)]
        messages = [*self.rounds, {**turn.message, "content": content}]
        if masked(others, self._masked) != others or len(str(messages)) > _MAX_ROUNDS_CHARS:
            self._keeps_rounds = False  # those that follow must not be kept without it
            return
        paths = {path for each in messages for block in each["content"] for path in paths_in(block.get("input"))}
        core_of(self.store).follow_up(lambda tx: records.keep_round(tx, self.digest, messages, paths, time.time()))
        self.rounds = messages

    def _masked(self, text: str, path: str = "") -> str:
        """Return a text as it may be kept, by the rules for the texts of memories."""
        core = core_of(self.store)
        try:
            examined = core.examiner.examine(core.known_settings[1] or core.settings(), text, path=path)
        except Refused:
            return _UNSAVED
        return _UNSAVED if examined.refused else examined.text

    def _tried(self, work: Callable[[], T]) -> T | None:
        """Call a function. If the storage fails, the request goes on without what it does."""
        try:
            return work()
        except RetentiveError:
            self.has_failed = True
            return None
