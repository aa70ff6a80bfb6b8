"""Every integration accepts a location, an opened location, a memory store or mounts, and refuses useless options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import retentive
from retentive import AsyncMemorySearchTool, AsyncMemoryTool, InvalidInput, MemorySearchTool, MemoryTool, Mounts
from retentive.agent import Agent, AsyncAgent, function_tool
from retentive.integrations import langchain, pydantic_ai
from retentive.integrations.search_tool import search_tool
from retentive.values.settings import NAMES
from support.places import OpenPlace

BLOCK = {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": {"command": "view", "path": "/memories"}}
CREATE = {"command": "create", "path": "/memories/a", "file_text": "one"}
Make = Callable[..., Any]


def result(memory: Any, **options: Any) -> dict[str, Any]:
    """Result of a view through `tool_result`."""
    return retentive.tool_result(memory, BLOCK, **options)


def agent(memory: Any, **options: Any) -> Agent:
    """Agent that never sends a request."""
    return Agent(object(), memory=memory, **options)  # type: ignore[arg-type]


def async_agent(memory: Any, **options: Any) -> AsyncAgent:
    """Async agent that never sends a request."""
    return AsyncAgent(object(), memory=memory, **options)  # type: ignore[arg-type]


TOOLS: list[Make] = [MemoryTool, AsyncMemoryTool]
SEARCH_TOOLS: list[Make] = [MemorySearchTool, AsyncMemorySearchTool]
OTHERS: list[Make] = [
    function_tool,
    search_tool,
    langchain.memory_tool,
    pydantic_ai.memory_tool,
    pydantic_ai.MemoryCapability,
    agent,
    async_agent,
    result,
]
CLOSABLE = [*TOOLS, *SEARCH_TOOLS, agent]
ALL = [*TOOLS, *SEARCH_TOOLS, *OTHERS]
OPENING_OPTIONS = {"keys": "keys.json"}
SETTINGS = {"read_only": True, "view_chars": 50, "sensitive_kinds": None}


@pytest.mark.parametrize("kind", ["store", "mounts"])
@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_a_key_of_a_store_is_refused_with_an_open_store(
    place: str, open_place: OpenPlace, make: Make, kind: str
) -> None:
    """Ignored, it would give two customers the same memories."""
    opened = open_place(place)
    memory = opened.store() if kind == "store" else Mounts({"/memories": opened.store()})
    with pytest.raises(InvalidInput, match=r"`store` has no effect on .*, store='customer-7'\)"):
        make(memory, store="customer-7")
    assert [info.key for info in opened.stores()] == ["default"]


@pytest.mark.parametrize("option", [*OPENING_OPTIONS.items(), *SETTINGS.items()], ids=lambda option: option[0])
@pytest.mark.parametrize("kind", ["store", "mounts", "opened"])
@pytest.mark.parametrize("make", TOOLS, ids=lambda make: make.__name__)
def test_options_for_opening_are_refused_with_an_open_memory(
    place: str, open_place: OpenPlace, make: Make, kind: str, option: tuple[str, object]
) -> None:
    """Ignored, a read-only tool would write."""
    opened = open_place(place)
    store, (name, value) = opened.store(), option
    memory = {"store": store, "mounts": Mounts({"/memories": store}), "opened": opened}[kind]
    with pytest.raises(InvalidInput, match=f"`{name}` has no effect on .*(read_only\\(\\)|retentive.open)"):
        make(memory, **{name: value})
    assert [info.key for info in opened.stores()] == ["default"]


@pytest.mark.parametrize("make", [*TOOLS, retentive.open], ids=lambda make: make.__name__)
def test_an_unknown_option_is_refused_with_the_known_ones(place: str, open_place: OpenPlace, make: Make) -> None:
    memories = [place] if make is retentive.open else [place, open_place("sqlite://"), open_place("sqlite://").store()]
    for memory in memories:
        with pytest.raises(InvalidInput, match=r"'view_char'.*did you mean view_chars") as caught:
            make(memory, view_char=50)
        assert all(name in str(caught.value) for name in ("actor", "keys", *NAMES))


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_an_opened_location_and_a_key_select_a_store(place: str, open_place: OpenPlace, make: Make) -> None:
    """A server opens the location once, and makes a tool for each request."""
    opened = open_place(place)
    make(opened, store="user-1")
    made = make(opened)
    assert [info.key for info in opened.stores()] == ["user-1", "default"]
    if make in CLOSABLE:
        made.close()
    assert opened.store("user-1").usage().memories == 0, "closing a tool leaves the location open"


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_the_memory_and_the_key_have_the_right_types(place: str, open_place: OpenPlace, make: Make) -> None:
    """A number is the usual id of a user in a database."""
    opened = open_place(place)
    with pytest.raises(InvalidInput, match=r"`store` must be .*, not int"):
        make(opened, store=42)
    with pytest.raises(InvalidInput, match="must be a location"):
        make(42)
    assert opened.stores() == []


def test_an_open_store_needs_no_location(place: str, open_place: OpenPlace) -> None:
    store = open_place(place).store()
    for given in ({"location": place}, {"base_path": "./memory"}):
        with pytest.raises(InvalidInput, match="which already has a location"):
            MemoryTool(store=store, **given)  # type: ignore[arg-type]


def test_tool_result_refuses_a_location() -> None:
    """It would be opened for every call."""
    with pytest.raises(InvalidInput, match=r"open the location once with `retentive\.open`"):
        result("sqlite://")


@pytest.mark.parametrize("make", [langchain.memory_tool, pydantic_ai.memory_tool, pydantic_ai.MemoryCapability])
def test_a_function_of_the_run_selects_the_store_itself(place: str, open_place: OpenPlace, make: Make) -> None:
    store = open_place(place).store()
    with pytest.raises(InvalidInput, match="is a function; return the memory store 'user-1' from the function"):
        make(lambda _: store, store="user-1")
