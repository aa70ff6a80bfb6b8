"""A conversation as it goes on: what it cost, what was cleared, what it changed, and how it is interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, cast

from retentive.agent.errors import AgentError
from retentive.agent.events import Compaction, EditsApplied, Event, Finished, Text, ToolCall, ToolReply, UsageReport
from retentive.agent.responses import AppliedEdit
from retentive.errors import InvalidInput
from retentive.history.apply import Outcome
from retentive.storage.contract import Actor, Version
from retentive.store import MemoryStore

if TYPE_CHECKING:
    from retentive.agent.loop import Agent


@dataclass
class Spent:
    """Tokens of one message of the user with all replies to it. `total_tokens` has those of compactions too."""

    replies: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0

    def add(self, report: UsageReport) -> None:
        """Count one more reply."""
        self.replies += 1
        self.input_tokens += report.usage.input_tokens
        self.cache_read_tokens += report.usage.cache_read_tokens
        self.cache_creation_tokens += report.usage.cache_creation_tokens
        self.output_tokens += report.usage.output_tokens
        self.total_tokens = report.total_tokens


@dataclass
class Cleared:
    """What the API left out: `edits` for the last reply for which it did, in so many `replies`, and summaries."""

    edits: tuple[AppliedEdit, ...] = ()
    replies: int = 0
    compactions: int = 0


class Session:
    """One conversation of an agent with a memory store. For the main thread, which Ctrl-C interrupts."""

    def __init__(self, agent: Agent, store: MemoryStore) -> None:
        self.agent = agent
        self.store = store
        self.begun = datetime.fromtimestamp(store.clock(), UTC)
        self.spent: list[Spent] = []
        self.cleared = Cleared()
        self._said_at = 0  # where the last message of the user stands in the conversation
        self._length = 0  # of the conversation, with all replies but the present one
        self._partial = ""  # what was said of that one
        self._unsaid: str | None = None  # the last message, if the API did not take it
        self._pending: set[str] = set()  # calls that are not answered yet
        self._interrupted = False
        self._aside: set[int] = set()  # revisions of changes that are no more

    @property
    def actor(self) -> Actor:
        """Who is recorded with what Claude changes."""
        return self.agent.actor

    # -- talking ---------------------------------------------------------------------------------------------

    def can_retry(self) -> bool:
        """Whether something that was said is still to be answered."""
        return self._unsaid is not None or bool(self.agent.messages and self.agent.messages[-1]["role"] == "user")

    def run(self, said: str | None, show: Callable[[Event], None]) -> bool:
        """Let Claude answer, and show each event as it comes; whether the answer came to its end.

        Raises `AgentError`, and `KeyboardInterrupt` for Ctrl-C; commands of the memory that have begun come to their
        end before. Whatever happens, the conversation can go on. What was said and refused is taken out of it; without
        a message, what the API did not take is said again.
        """
        said, self._unsaid = self._unsaid if said is None else said, None
        if said is not None:
            self._said_at = len(self.agent.messages)
        self.spent.append(Spent())
        self._pending, self._interrupted, self._partial = set(), False, ""
        self._length = self._said_at + 1 if said is not None else len(self.agent.messages)
        try:
            with self._catching(), closing(cast("Generator[Event]", self.agent.run(said))) as events:
                return self._follow(events, show)
        except KeyboardInterrupt:
            self._keep_partial()
            raise
        except AgentError:
            self._unsaid = said if len(self.agent.messages) == self._said_at else None
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
            case ToolCall(id=call_id):
                self._pending.add(call_id)
            case ToolReply(id=call_id):
                self._pending.discard(call_id)
                self._begin_reply()
            case UsageReport():
                self.spent[-1].add(event)
            case EditsApplied(edits):
                self.cleared.edits = edits
                self.cleared.replies += 1
            case Compaction(summary):
                self.cleared.compactions += summary is not None
            case Finished():
                self._pending.clear()
                self._begin_reply()
                if event.reason == "refusal":  # it would be refused again
                    del self.agent.messages[self._said_at :]

    def _begin_reply(self) -> None:
        """The conversation has all that was said until now."""
        self._partial, self._length = "", len(self.agent.messages)

    @contextmanager
    def _catching(self) -> Iterator[None]:
        """Ctrl-C interrupts within, but never a command of the memory: Claude is told what came of each."""

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
    def _undisturbed(self) -> Iterator[None]:
        """Ctrl-C does nothing within: what is being written is done whole, and the store can be used after it."""
        self._pending = {"undo"}
        try:
            with self._catching():
                yield
        finally:
            self._pending = set()

    def _keep_partial(self) -> None:
        """What Claude had said of a reply stays in the conversation: the user has read it, and may speak of it."""
        text = self._partial.rstrip()
        if text and len(self.agent.messages) == self._length:
            self.agent.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})

    # -- what was changed ------------------------------------------------------------------------------------

    def changes(self) -> list[Version]:
        """What Claude changed in this session and was not undone, newest first."""
        found = self.store.history.log(since=self.begun)
        return [version for version in found if version.actor == self.actor and version.revision not in self._aside]

    def undo_last(self) -> Outcome | None:
        """Take back the last change, with all it did; None if there is none."""
        changes = self.changes()
        if not changes:
            return None
        with self._undisturbed():
            outcome = self.store.history.undo(change=changes[0].id)
        if outcome.done:
            self._set_aside(changes[0].revision)
        return outcome

    def undo_all(self) -> Outcome | None:
        """Take back all changes in one step; None if there are none. Raises `InvalidInput`."""
        if not self.changes():
            return None
        if {"*", "?"} & set(self.actor.id):
            raise InvalidInput("the actor has a * or ? in its name, which may stand for others; undo one by one")
        newest = self.changes()[0].revision
        with self._undisturbed():
            outcome = self.store.history.undo(by=str(self.actor), since=self.begun)
        if outcome.done:
            self._set_aside(*(version.revision for version in self.changes() if version.revision <= newest))
        return outcome

    def _set_aside(self, *undone: int) -> None:
        """Changes that are no more, and the undoing itself, where --actor names who undoes too."""
        last = max(undone)
        self._aside |= set(undone) | {version.revision for version in self.changes() if version.revision > last}
