"""State of a conversation: token usage, context edits, changes of the memory, and interruption."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from retentive.agent.conversation import MessageDict, user_message
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
from retentive.cli.chat.changes import diffs
from retentive.cli.chat.conversations import UNSAVED, SavedChat
from retentive.cli.chat.interrupts import interrupts
from retentive.errors import InvalidInput, RetentiveError
from retentive.history.apply import RestoreOutcome
from retentive.storage.contract import Actor, Version
from retentive.store import MemoryStore, core_of
from retentive.values.diff import DiffLine

if TYPE_CHECKING:
    from retentive.agent.loop import Agent


class Session:
    """A conversation of an agent that uses a memory store. It must run in the main thread, which receives Ctrl-C.

    `new_agent` creates the agent. It is called when the first message is sent, because it imports the SDK. It gets the
    messages of `saved`, the saved conversation. The conversation is saved after each step, so a process that is killed
    loses no message.
    """

    def __init__(
        self,
        new_agent: Callable[[list[MessageDict]], Agent],
        store: MemoryStore,
        actor: Actor,
        saved: SavedChat = UNSAVED,
    ) -> None:
        self.store = store
        self.actor = actor
        self.saved = saved
        self.started_at = saved.started_at or datetime.fromtimestamp(core_of(store).clock(), UTC)
        self.usage: list[list[UsageReport]] = []  # usage reports for each user message
        self.edits: list[tuple[AppliedEdit, ...]] = []  # context edits, for each reply that reported some
        self.compactions = 0
        self._new_agent = new_agent
        self._agent: Agent | None = None
        self._message_at = 0  # index of the last user message in the conversation
        self._length = 0  # length of the conversation without the current reply
        self._partial = ""  # text of the current reply so far
        self._unsent: str | None = None  # last message, if the API did not accept it
        self._pending: set[str] = set()  # ids of calls that have no reply yet
        self._interrupted = False
        self._undone: set[int] = set(saved.undone)  # revisions that were undone, and revisions that undid others
        self._shown: set[str] = set()  # ids of versions whose diff was shown

    @property
    def agent(self) -> Agent:
        """The agent. It is created when it is first used."""
        if self._agent is None:
            self._agent = self._new_agent(self.saved.messages)
        return self._agent

    @property
    def messages(self) -> list[MessageDict]:
        """The messages of the conversation so far."""
        return self.saved.messages if self._agent is None else self._agent.messages

    def can_retry(self) -> bool:
        """Return whether the last message has no answer, so that it can be sent again."""
        return self._unsent is not None or bool(self.messages and self.messages[-1]["role"] == "user")

    def run(
        self,
        message: str | None,
        show: Callable[[Event], None],
        show_diff: Callable[[list[DiffLine]], None] | None = None,
    ) -> bool:
        """Send a message, and show each event of the answer and the diff of each change.

        If `message` is None, the last message, which got no answer, is sent again. Returns True if the answer is
        complete. If Claude refuses to answer, the message is removed from the conversation. Raises `AgentError`; the
        conversation can continue after it. On Ctrl-C, raises `KeyboardInterrupt` after the current memory command has
        finished.
        """
        message, self._unsent = self._unsent if message is None else message, None
        if message is not None:
            self._message_at = len(self.messages)
            self._save([*self.messages, user_message(message)])
        self.usage.append([])
        self._pending, self._interrupted, self._partial = set(), False, ""
        self._length = self._message_at + 1 if message is not None else len(self.messages)
        try:
            with interrupts(self._interrupt), closing(cast("Generator[Event]", self.agent.run(message))) as events:
                return self._follow(events, show, show_diff)
        except KeyboardInterrupt:
            self._keep_partial()
            raise
        except AgentError:
            self._unsent = message if len(self.messages) == self._message_at else None
            raise
        finally:
            self._save(self.messages)

    def _follow(
        self,
        events: Iterator[Event],
        show: Callable[[Event], None],
        show_diff: Callable[[list[DiffLine]], None] | None,
    ) -> bool:
        answered = False
        for event in events:
            if isinstance(event, ToolCall | ToolReply):
                self._save(self.messages)  # the call runs when the loop reads the next event
            shown = self._new_diff(event) if show_diff is not None else []  # Ctrl-C waits
            self._note(event)
            if isinstance(event, Finished):
                answered = event.reason == "end_turn"
            show(event)
            if show_diff is not None and shown:
                show_diff(shown)
            if self._interrupted and not self._pending:
                raise KeyboardInterrupt
        return answered

    def _save(self, messages: list[MessageDict]) -> None:
        self.saved.save(messages, actor=str(self.actor), started_at=self.started_at, undone=self._undone)

    def _new_diff(self, event: Event) -> list[DiffLine]:
        """Return the diff of the versions that a call recorded. Returns an empty list if the store cannot be read."""
        if not isinstance(event, ToolReply) or event.is_error:
            return []
        try:
            new = [version for version in self.changes() if version.id not in self._shown]
            self._shown.update(version.id for version in new)
            return list(diffs(self.store, new))
        except RetentiveError:
            return []

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
        """Reset the state for a new reply. All messages before the reply are already in the conversation."""
        self._partial, self._length = "", len(self.agent.messages)

    def _interrupt(self) -> None:
        """Interrupt the answer. If a memory command runs, wait until it ends: Claude must get a reply to each call."""
        if not self._pending:
            raise KeyboardInterrupt
        self._interrupted = True

    @contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """Context manager that ignores Ctrl-C in its block, so that a write completes."""
        self._pending = {"undo"}
        try:
            with interrupts(self._interrupt):
                yield
        finally:
            self._pending = set()

    def _keep_partial(self) -> None:
        """Add the text of an interrupted reply to the conversation. The user has read it and may refer to it."""
        text = self._partial.rstrip()
        if text and len(self.agent.messages) == self._length:
            self.agent.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})

    def changes(self) -> list[Version]:
        """Return the versions that Claude recorded in this conversation and that were not undone, newest first."""
        found = self.store.history.log(since=self.started_at)
        return [version for version in found if version.actor == self.actor and version.revision not in self._undone]

    def undo_last(self) -> RestoreOutcome | None:
        """Undo the last change with all its versions. Returns None if there is no change to undo."""
        changes = self.changes()
        if not changes:
            return None
        with self._uninterrupted():
            outcome = self.store.undo(changes[0].id)
        if outcome.done:
            self._mark_undone(changes[0].revision)
        return outcome

    def undo_all(self) -> RestoreOutcome | None:
        """Undo all changes of this conversation in one step. Returns None if there is no change to undo.

        Raises `InvalidInput` if the name of the actor is also a pattern, which could match other actors.
        """
        if not self.changes():
            return None
        if {"*", "?"} & set(self.actor.id):
            raise InvalidInput(
                "nothing was undone: the name of the actor contains * or ?, so the name also matches other actors; "
                "use /undo to undo one change at a time"
            )
        newest = self.changes()[0].revision
        with self._uninterrupted():
            outcome = self.store.undo_by(str(self.actor), since=self.started_at)
        if outcome.done:
            self._mark_undone(*(version.revision for version in self.changes() if version.revision <= newest))
        return outcome

    def _mark_undone(self, *revisions: int) -> None:
        """Mark revisions as undone, and save the conversation.

        With --actor, the undo is recorded with the same actor as Claude's changes. Therefore the revision of the undo
        is marked too.
        """
        last = max(revisions)
        self._undone |= set(revisions) | {version.revision for version in self.changes() if version.revision > last}
        self._save(self.messages)
