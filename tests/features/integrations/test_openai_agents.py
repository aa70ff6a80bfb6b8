"""The tools and sessions for the OpenAI Agents SDK, in its runner with its scripted model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from agents import Agent, FunctionTool, RunConfig, Runner, Session, SessionSettings, SQLiteSession, TResponseInputItem
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import given
from hypothesis import strategies as st

import retentive
from retentive import InvalidInput, MemoryStore
from retentive.errors import Damaged
from retentive.integrations.openai_agents import MemorySession, memory_tool, search_tool
from retentive.integrations.schemas import MEMORY_DESCRIPTION as DESCRIPTION
from retentive.integrations.schemas import MEMORY_SCHEMA as INPUT_SCHEMA
from retentive.integrations.search_tool import search_tool as plain_search_tool
from support.places import OpenPlace
from support.profiles import sized

from .conversations import ERRORS, STORY, A

QUIET = RunConfig(tracing_disabled=True)
TEXTS = st.sampled_from(["", "a\nb", "line\u2028separator\x85", "é", "x" * 40_000])
ITEMS: st.SearchStrategy[TResponseInputItem] = st.builds(
    lambda text, n: cast("TResponseInputItem", {"role": "user", "content": text, "n": [n, True, None]}),
    TEXTS,
    st.integers(0, 9),
)
LIMITS = st.one_of(st.none(), st.integers(0, 4))
CALLS = st.one_of(
    st.tuples(st.just("add_items"), st.lists(ITEMS, max_size=4)),
    st.tuples(st.just("get_items"), LIMITS),
    st.tuples(st.sampled_from(["pop_item", "clear_session"])),
)


@pytest.fixture
def store(open_place: OpenPlace) -> MemoryStore:
    return open_place("sqlite://").store()


@pytest.fixture
def twin(open_place: OpenPlace) -> MemoryStore:
    return open_place("sqlite://").store()


def item(text: str) -> TResponseInputItem:
    return cast("TResponseInputItem", {"role": "user", "content": text})


def contents(items: list[TResponseInputItem]) -> list[str]:
    return [cast("dict[str, str]", each)["content"] for each in items]


def outputs(tool: FunctionTool, calls: list[Any], context: object = None) -> list[str]:
    """Run an agent whose model makes one call in each turn; return the results of the calls."""
    turns = [[function_call(tool.name, each, call_id=f"call_{n}")] for n, each in enumerate(calls)]
    model = ScriptedModel([*turns, [assistant_message("Done.")]])
    agent = Agent[Any](name="a", model=model, tools=[tool])
    result = asyncio.run(Runner.run(agent, "Hello", context=context, run_config=QUIET, max_turns=len(turns) + 1))
    model.assert_complete()
    given = [cast("dict[str, Any]", each) for each in result.to_input_list()]
    return [each["output"] for each in given if each.get("type") == "function_call_output"]


def test_replies_equal_those_of_the_store(store: MemoryStore, twin: MemoryStore) -> None:
    """All commands and all errors give the same text; the agent goes on after errors."""
    tool = memory_tool(store, actor="session:s1", source="user", session="s1")
    assert outputs(tool, list(STORY)) == [twin.execute(command).text for command in STORY]
    assert len(ERRORS) > 10
    assert {str(version.actor) for version in store.versions()} == {"session:s1"}
    assert [version.path for version in store.versions()] == [version.path for version in twin.versions()]


def test_the_definition_is_that_of_the_function_tool(store: MemoryStore) -> None:
    tool = memory_tool(store)
    assert (tool.name, tool.description, tool.params_json_schema) == ("memory", DESCRIPTION, INPUT_SCHEMA)
    assert not tool.strict_json_schema


def test_a_call_under_an_id_that_was_used_before_makes_its_change(store: MemoryStore) -> None:
    """Each run here uses the same call ids, as models do that number the calls of each run."""
    store.create(A, "")
    insert = {"command": "insert", "path": A, "insert_line": 0, "insert_text": "one"}
    assert outputs(memory_tool(store), [insert]) == outputs(memory_tool(store), [insert])
    assert store.read(A) == "one\none\n"


def test_memory_and_actor_can_depend_on_the_run(open_place: OpenPlace) -> None:
    place = open_place("sqlite://")
    tool = memory_tool(lambda run: place.store(run.context), actor=lambda run: f"user:{run.context}")
    find = search_tool(lambda run: place.store(run.context))
    for user in ("ann", "ben"):
        outputs(tool, [{"command": "create", "path": A, "file_text": f"notes of {user}"}], context=user)
    assert [str(version.actor) for version in place.store("ben").versions()] == ["user:ben"]
    assert "notes of ann" in outputs(find, [{"query": "notes"}], context="ann")[0]


def test_the_search_tool_replies_as_its_function_tool(store: MemoryStore) -> None:
    store.write(A, "Refunds are paid weekly")
    find = plain_search_tool(store)
    requests: list[Any] = [{"query": "refund"}, {"query": "none of it"}, {}, {"query": "x", "path": "/etc"}]
    assert outputs(search_tool(store), requests) == [find.reply(each).text for each in requests]


@given(calls=st.lists(CALLS, max_size=sized(quick=6, long=15, full=25)), limit=LIMITS)
def test_a_session_gives_the_results_of_the_session_in_sqlite(calls: list[tuple[str, Any]], limit: int | None) -> None:
    settings = SessionSettings(limit)

    async def results(session: Session) -> list[object]:
        return [await getattr(session, name)(*arguments) for name, *arguments in [*calls, ("get_items",)]]

    model = SQLiteSession("s", session_settings=settings)
    with retentive.open("sqlite://") as opened:
        ours = MemorySession("s", opened, session_settings=settings)
        assert isinstance(ours, Session)
        assert asyncio.run(results(ours)) == asyncio.run(results(model))
    model.close()


def test_a_runner_continues_a_session(store: MemoryStore) -> None:
    """The second run sends the messages, the call and its result from the first one, which another object has saved."""
    model = ScriptedModel(
        [
            [function_call("memory", {"command": "view", "path": "/memories"}, call_id="c1")],
            [assistant_message("Nothing yet.")],
            [assistant_message("As I said.")],
        ]
    )
    agent = Agent[Any](name="a", model=model, tools=[memory_tool(store)])
    for question in ("What do you know?", "Sure?"):
        session = MemorySession("user-1", store, store=None)
        asyncio.run(Runner.run(agent, question, session=session, run_config=QUIET))
    model.assert_complete()
    assert model.last_call is not None
    sent = [each.get("type", each.get("role")) for each in model.last_call.input]
    assert sent == ["user", "function_call", "function_call_output", "message", "user"]


def test_large_histories_are_split_and_an_item_over_the_limit_is_refused(store: MemoryStore) -> None:
    """Items that are added together are stored together, or none."""
    session = MemorySession("s", store)
    many = [item(str(n) + "x" * 10_000) for n in range(30)]
    asyncio.run(session.add_items(many))
    assert asyncio.run(session.get_items()) == many
    assert 1 < len(store.memories()) < 10
    assert len({version.revision for version in store.versions()}) == 1
    with pytest.raises(InvalidInput, match="over the limit of 102400 bytes"):
        asyncio.run(session.add_items([item("fits"), item("x" * 200_000)]))
    assert asyncio.run(session.get_items(1)) == many[-1:]


@pytest.mark.parametrize("session_id", ["", "x" * 256, "/" * 100, 5])
def test_an_id_that_is_empty_or_too_long_is_refused(store: MemoryStore, session_id: Any) -> None:
    with pytest.raises(InvalidInput, match="a session id"):
        MemorySession(session_id, store)


@pytest.mark.parametrize("value", [(1,), float("inf"), {1: 2}, b""])
def test_items_that_are_not_json_are_refused(store: MemoryStore, value: object) -> None:
    wrong = cast("TResponseInputItem", {"role": "user", "content": value})
    with pytest.raises(InvalidInput, match="must be JSON"):
        asyncio.run(MemorySession("s", store).add_items([item("fine"), wrong]))
    assert store.versions() == []


def test_half_an_emoji_is_kept(store: MemoryStore) -> None:
    """A stream that was cut leaves a lone surrogate. The sessions of the SDK keep it too."""
    session, model = MemorySession("s", store), SQLiteSession("s")
    items = [item("hi"), item("half \ud83d"), {**item("\udc00"), "name\udfff": "x"}]
    for each in (session, model):
        asyncio.run(each.add_items(cast("list[TResponseInputItem]", items)))
    assert asyncio.run(session.get_items()) == asyncio.run(model.get_items()) == items
    assert asyncio.run(session.pop_item()) == items[-1]
    model.close()


def test_other_memories_are_no_items(store: MemoryStore) -> None:
    session = MemorySession("s", store)
    asyncio.run(session.add_items([item("one")]))
    store.write("/memories/sessions/s/notes.md", "by a person")
    store.write("/memories/sessions/s/below/000000000009.jsonl", "by a person")
    assert contents(asyncio.run(session.get_items())) == ["one"]
    store.write("/memories/sessions/s/000000000002.jsonl", "not JSON")
    with pytest.raises(Damaged, match="000000000002"):
        asyncio.run(session.get_items())


def in_two_threads(work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_two_threads_lose_no_item(place: str, open_place: OpenPlace) -> None:
    """Each adds pairs to one session through its own object, in order and together; then each pops half of them."""
    store, rounds = open_place(place).store(), sized(quick=10, long=30, full=100)

    def add(number: int) -> None:
        session = MemorySession("s", store)
        for n in range(rounds):
            asyncio.run(session.add_items([item(f"{number} {n} a"), item(f"{number} {n} b")]))

    in_two_threads(add)
    found = contents(asyncio.run(MemorySession("s", store).get_items()))
    assert len(found) == 4 * rounds
    for number in "01":
        expected = [f"{number} {n} {half}" for n in range(rounds) for half in "ab"]
        assert [each for each in found if each[0] == number] == expected
    assert all(one[:-1] == two[:-1] for one, two in zip(found[::2], found[1::2], strict=True))
    popped: list[list[TResponseInputItem | None]] = [[], []]

    def pop(number: int) -> None:
        session = MemorySession("s", store)
        popped[number] += [asyncio.run(session.pop_item()) for _ in range(2 * rounds)]

    in_two_threads(pop)
    assert sorted(contents([each for each in popped[0] + popped[1] if each])) == sorted(found)


def test_a_cancelled_caller_waits_for_its_write(store: MemoryStore) -> None:
    """After the cancellation, the item is there or it never will be: the runner may then rewind the session."""

    async def main() -> list[str]:
        session = MemorySession("s", store)
        task = asyncio.create_task(session.add_items([item("one")]))
        await asyncio.sleep(0)  # the write has started
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return contents(await session.get_items())

    assert asyncio.run(main()) == ["one"]


@pytest.mark.parametrize("arguments", ["", "[]", "5", '{"command": "view"'])
def test_malformed_arguments_get_an_error_reply(store: MemoryStore, arguments: str) -> None:
    (output,) = outputs(memory_tool(store), [arguments])
    assert "Error" in output
    assert store.versions() == []


@pytest.mark.parametrize("wrong", [["hello"], "Hi", [None], [[]], [item("x"), 5], 5])
def test_items_that_are_no_objects_are_refused(store: MemoryStore, wrong: Any) -> None:
    """A stored item that is no object would make the session unreadable."""
    session = MemorySession("s", store)
    asyncio.run(session.add_items([item("before")]))
    with pytest.raises(InvalidInput, match="must be a list of JSON objects"):
        asyncio.run(session.add_items(wrong))
    asyncio.run(session.add_items([item("after")]))
    assert contents(asyncio.run(session.get_items())) == ["before", "after"]
