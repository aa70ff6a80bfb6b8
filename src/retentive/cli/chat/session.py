"""State of a conversation: token usage, context edits, changes of the memory, and interruption."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, cast

from retentive.agent.errors import AgentError
from retentive.agent.events import (
    Compaction,
    EditsApplied,
    Event,
    Finished,
    StreamRestarted,
    Text,
    ToolCall,
    ToolReply,
    UsageReport,
)
from retentive.agent.responses import AppliedEdit
from retentive.errors import InvalidInput
from retentive.history.apply import RestoreOutcome
from retentive.storage.contract import Actor, Version
from retentive.store import MemoryStore, core_of

if TYPE_CHECKING:
    from retentive.agent.loop import Agent


class Session:
    """A conversation of an agent with a memory store. Use it in the main thread, which receives Ctrl-C."""

    def __init__(self, agent: Agent, store: MemoryStore) -> None:
        self.agent = agent
        self.store = store
        self.started_at = datetime.fromtimestamp(core_of(store).clock(), UTC)
        self.usage: list[list[UsageReport]] = []  # usage reports for each user message
        self.edits: list[tuple[AppliedEdit, ...]] = []  # context edits, for each reply that reported some
        self.compactions = 0
        self._message_at = 0  # index of the last user message in the conversation
        self._length = 0  # length of the conversation without the current reply
        self._partial = ""  # text of the current reply so far
        self._unsent: str | None = None  # last message, if the API did not accept it
        self._pending: set[str] = set()  # ids of calls that have no reply yet
        self._interrupted = False
        self._undone: set[int] = set()  # revisions that were undone, and revisions that undid others

    @property
    def actor(self) -> Actor:
        """Actor recorded with Claude's changes."""
        return self.agent.actor

    def can_retry(self) -> bool:
        """True if a message has no answer yet."""
        return self._unsent is not None or bool(self.agent.messages and self.agent.messages[-1]["role"] == "user")

    def run(self, message: str | None, show: Callable[[Event], None]) -> bool:
        """Let Claude answer, and show each event. True if the answer is complete.

        Without a message, the message that the API did not accept is sent again. Raises `AgentError`. On Ctrl-C, raises
        `KeyboardInterrupt` after the current memory command has finished. The conversation can continue after an error.
        A refused message is removed from the conversation.
        """
        message, self._unsent = self._unsent if message is None else message, None
        if message is not None:
            self._message_at = len(self.agent.messages)
        self.usage.append([])
        self._pending, self._interrupted, self._partial = set(), False, ""
        self._length = self._message_at + 1 if message is not None else len(self.agent.messages)
        try:
            with self._deferred_interrupts(), closing(cast("Generator[Event]", self.agent.run(message))) as events:
                return self._follow(events, show)
        except KeyboardInterrupt:
            self._keep_partial()
            raise
        except AgentError:
            self._unsent = message if len(self.agent.messages) == self._message_at else None
            raise

    def _follow(self, events: Iterator[Event], show: Callable[[Event], None]) -> bool:
        answered = False
        for event in events:
            self._note(event)
            if isinstance(event, Finished):
                answered = event.reason == "end_turn"
            show(event)
            if self._interrupted and not self._pending:
                raise KeyboardInterrupt
        return answered

    def _note(self, event: Event) -> None:
        match event:
            case Text(text):
                self._partial += text
            case StreamRestarted():
                self._partial = ""
            case ToolCall(id=call_id):
                self._pending.add(call_id)
            case ToolReply(id=call_id):
                self._pending.discard(call_id)
                self._begin_reply()
            case UsageReport():
                self.usage[-1].append(event)
            case EditsApplied(edits):
                self.edits.append(edits)
            case Compaction(summary):
                self.compactions += summary is not None
            case Finished():
                self._pending.clear()
                self._begin_reply()
                if event.reason == "refusal":  # Claude would refuse the same message again
                    del self.agent.messages[self._message_at :]

    def _begin_reply(self) -> None:
        """Start a reply. Everything before the reply is in the conversation."""
        self._partial, self._length = "", len(self.agent.messages)

    @contextmanager
    def _deferred_interrupts(self) -> Iterator[None]:
        """Let Ctrl-C interrupt the block, but not a memory command, because Claude must get a reply to each call."""

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            if not self._pending:
                raise KeyboardInterrupt
            self._interrupted = True

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """Defer Ctrl-C until the end of the block, so that a write completes and the store stays usable."""
        self._pending = {"undo"}
        try:
            with self._deferred_interrupts():
                yield
        finally:
            self._pending = set()

    def _keep_partial(self) -> None:
        """Keep the text of an interrupted reply: the user has read it and may refer to it."""
        text = self._partial.rstrip()
        if text and len(self.agent.messages) == self._length:
            self.agent.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})

    def changes(self) -> list[Version]:
        """Claude's changes in this session that were not undone, newest first."""
        found = self.store.history.log(since=self.started_at)
        return [version for version in found if version.actor == self.actor and version.revision not in self._undone]

    def undo_last(self) -> RestoreOutcome | None:
        """Undo the last change with all its versions. None if there is no change."""
        changes = self.changes()
        if not changes:
            return None
        with self._uninterrupted():
            outcome = self.store.undo(changes[0].id)
        if outcome.done:
            self._mark_undone(changes[0].revision)
        return outcome

    def undo_all(self) -> RestoreOutcome | None:
        """Undo all changes in one step. None if there is no change. Raises `InvalidInput`."""
        if not self.changes():
            return None
        if {"*", "?"} & set(self.actor.id):
            raise InvalidInput(
                "the name of the actor contains * or ?, which match other names; use /undo for one change at a time"
            )
        newest = self.changes()[0].revision
        with self._uninterrupted():
            outcome = self.store.undo_by(str(self.actor), since=self.started_at)
        if outcome.done:
            self._mark_undone(*(version.revision for version in self.changes() if version.revision <= newest))
        return outcome

    def _mark_undone(self, *revisions: int) -> None:
        """Mark revisions as undone. With --actor the undo has the same actor, so its own revision is marked too."""
        last = max(revisions)
        self._undone |= set(revisions) | {version.revision for version in self.changes() if version.revision > last}
