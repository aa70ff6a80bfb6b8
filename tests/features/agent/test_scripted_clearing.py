"""Laws of clearing: which results are cleared, in which order, and that a second clearing changes nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from retentive.testing.scripted_claude.edits import ClearToolUsesEdit, Trigger
from retentive.testing.scripted_claude.messages import Message
from retentive.testing.scripted_claude.tool_clearing import PLACEHOLDER, Cleared, clear_thinking, clear_tool_uses

from .histories import NAMES, blocks_of, histories, results_of, size

ALWAYS = Trigger("tool_uses", 0)
EDITS = st.builds(
    ClearToolUsesEdit,
    trigger=st.builds(Trigger, st.sampled_from(["input_tokens", "tool_uses"]), st.integers(1, 20)),
    keep=st.integers(0, 5),
    clear_at_least=st.just(0) | st.integers(0, 100),
    exclude_tools=st.frozensets(st.sampled_from(NAMES)),
    clear_inputs=st.booleans() | st.frozensets(st.sampled_from(NAMES)),
)
TURNS = st.none() | st.integers(0, 4)


def clear(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> Cleared:
    return clear_tool_uses(messages, edit, size=size(messages))


def names_of(messages: tuple[Message, ...]) -> dict[str, str]:
    return {str(block["id"]): str(block["name"]) for block in blocks_of(messages, "tool_use")}


def changed_ids(before: tuple[Message, ...], after: tuple[Message, ...]) -> set[str]:
    """Return the ids of the calls whose result or input differs."""
    old: Any = [*blocks_of(before, "tool_use"), *blocks_of(before, "tool_result")]
    new: Any = [*blocks_of(after, "tool_use"), *blocks_of(after, "tool_result")]
    return {a.get("id", a.get("tool_use_id")) for a, b in zip(old, new, strict=True) if a != b}


# --- tool uses ---


@given(histories(), EDITS)
def test_clearing_twice_changes_nothing(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> None:
    once = clear(messages, edit)
    assert clear(once.messages, edit) == Cleared(once.messages)


@given(histories(), EDITS)
def test_only_results_and_selected_inputs_change(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> None:
    """Roles, order, ids, names, texts and thinking stay the same. A cleared result becomes the placeholder."""
    after = clear(messages, edit).messages
    names = names_of(messages)
    assert [message.role for message in after] == [message.role for message in messages]
    for old, new in zip(blocks_of(messages, *_ALL), blocks_of(after, *_ALL), strict=True):
        if old["type"] == "tool_result":
            assert new in (old, {**old, "content": PLACEHOLDER})
        elif old["type"] == "tool_use":
            cleared = edit.clear_inputs if isinstance(edit.clear_inputs, bool) else names[str(old["id"])] in _set(edit)
            assert new in ((old, {**old, "input": {}}) if cleared else (old,))
        else:
            assert new == old


_ALL = ("text", "thinking", "tool_use", "tool_result")


def _set(edit: ClearToolUsesEdit) -> frozenset[str]:
    return edit.clear_inputs if isinstance(edit.clear_inputs, frozenset) else frozenset()


@given(histories(), EDITS)
def test_the_oldest_are_cleared_first(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> None:
    """The cleared results are the oldest ones that can be cleared. The newest `keep` results are unchanged."""
    after = clear(messages, edit).messages
    may_go = [use_id for use_id, name in names_of(messages).items() if name not in edit.exclude_tools]
    doomed = may_go[: max(0, len(may_go) - edit.keep)]
    gone = changed_ids(messages, after)
    assert gone <= set(doomed)
    if gone:
        assert {results_of(after)[use_id] for use_id in doomed} == {PLACEHOLDER}


@given(histories(), EDITS)
def test_excluded_tools_are_never_cleared(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> None:
    names = names_of(messages)
    gone = changed_ids(messages, clear(messages, edit).messages)
    assert {names[use_id] for use_id in gone} & edit.exclude_tools == set()


@given(histories(), EDITS)
def test_a_prompt_at_the_trigger_is_not_cleared(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> None:
    """The prompt must exceed the trigger, which is a number of tokens or of tool uses."""
    measured = size(messages) if edit.trigger.kind == "input_tokens" else len(names_of(messages))
    reached = ClearToolUsesEdit(Trigger(edit.trigger.kind, measured), edit.keep)
    assert clear(messages, reached) == Cleared(messages)
    may_go = list(results_of(messages).values())[: max(0, len(names_of(messages)) - edit.keep)]
    exceeded = ClearToolUsesEdit(Trigger(edit.trigger.kind, measured - 1), edit.keep)
    assert clear(messages, exceeded).count == len([text for text in may_go if text != PLACEHOLDER])


@given(histories(), EDITS)
def test_clear_at_least_is_all_or_nothing(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> None:
    cleared = clear(messages, edit)
    assert cleared == Cleared(messages) or cleared.tokens >= edit.clear_at_least
    freely = clear(messages, ClearToolUsesEdit(edit.trigger, edit.keep, 0, edit.exclude_tools, edit.clear_inputs))
    if freely.tokens >= edit.clear_at_least:
        assert cleared == freely


@given(histories(), EDITS)
def test_counts_match_the_messages(messages: tuple[Message, ...], edit: ClearToolUsesEdit) -> None:
    cleared = clear(messages, edit)
    assert cleared.count == len(changed_ids(messages, cleared.messages))
    assert cleared.tokens == max(0, size(messages) - size(cleared.messages))


@given(histories(), EDITS, st.integers(0, 10))
def test_cleared_results_stay_cleared(messages: tuple[Message, ...], edit: ClearToolUsesEdit, length: int) -> None:
    """The server has no state, and a longer history never restores a cleared result."""
    early = messages[: 2 * length + 1]
    gone = changed_ids(early, clear(early, edit).messages)
    assert gone <= changed_ids(messages, clear(messages, edit).messages)


def use(number: int, name: str = "read") -> tuple[Message, Message]:
    call = {"type": "tool_use", "id": f"t{number}", "name": name, "input": {"n": number}}
    answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"result {number}", "is_error": True}
    return Message("assistant", (call,)), Message("user", (answer,))


def test_excluded_tools_can_count_for_keep() -> None:
    """By default, calls of excluded tools do not count for `keep`; an option makes them count.

    Such calls are never cleared.
    """
    messages = (*use(0, "memory"), *use(1), *use(2), *use(3, "memory"))
    edit = ClearToolUsesEdit(ALWAYS, keep=1, exclude_tools=frozenset({"memory"}))
    assert changed_ids(messages, clear(messages, edit).messages) == {"t1"}


# --- thinking ---


@given(histories(), TURNS)
def test_clearing_thinking_twice_changes_nothing(messages: tuple[Message, ...], keep: int | None) -> None:
    once = clear_thinking(messages, keep)
    assert clear_thinking(once.messages, keep) == Cleared(once.messages)


@given(histories(), TURNS)
def test_only_old_thinking_is_removed(messages: tuple[Message, ...], keep: int | None) -> None:
    """Other blocks keep their order, and the remaining thinking is the newest."""
    cleared = clear_thinking(messages, keep)
    others = ("text", "tool_use", "tool_result")
    assert blocks_of(cleared.messages, *others) == blocks_of(messages, *others)
    before, after = (blocks_of(each, "thinking") for each in (messages, cleared.messages))
    assert after == before[len(before) - len(after) :]
    assert (len(after) < len(before)) == (cleared.count > 0)
    assert cleared.tokens == size(messages) - size(cleared.messages)
    if keep is None:
        assert cleared == Cleared(messages)


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
ASKED = Message("user", ({"type": "text", "text": "So?"},))


def test_a_turn_continues_through_tool_results() -> None:
    """One turn has three thoughts and two calls. After a user message, a fourth thought belongs to a second turn."""
    first, answered = use(0)
    again, answered_again = use(1)
    messages = (
        *(ASKED, Message("assistant", (THOUGHT, *first.blocks)), answered),
        *(Message("assistant", (THOUGHT, *again.blocks)), answered_again),
        *(Message("assistant", (THOUGHT, {"type": "text", "text": "So."})), ASKED),
        *(Message("assistant", (THOUGHT, {"type": "text", "text": "Yes."})), ASKED),
    )
    cleared = clear_thinking(messages, 1)
    assert (cleared.count, len(blocks_of(cleared.messages, "thinking"))) == (1, 1)
    assert clear_thinking(messages, 2) == Cleared(messages)


def test_redacted_thinking_and_empty_messages_are_removed() -> None:
    redacted = Message("assistant", ({"type": "redacted_thinking", "data": "..."},))
    newest = Message("assistant", (THOUGHT, {"type": "text", "text": "Yes."}))
    cleared = clear_thinking((ASKED, redacted, ASKED, newest, ASKED), 1)
    assert cleared.messages == (Message("user", (*ASKED.blocks, *ASKED.blocks)), newest, ASKED)
