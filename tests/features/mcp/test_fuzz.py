"""Arguments of any shape: every call gets a result, and the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive.mcp.answers import MAX_REPLY_CHARS
from retentive.mcp.tools import ONE_TOOL, TOOLS
from support.mcp_clients import connected, reply_of
from support.profiles import sized

FIELDS = sorted({name for tool in TOOLS for name in tool.properties} | {"command", "self", "x"})
NAMES = [tool.name for tool in TOOLS]
PATHS = ["/memories", "/memories/a", "/memories/a/b", "/memories/..", "", "a", "/memories/\ud800"]
REVISIONS = ["HEAD", "HEAD~1", "r1", "r99999999999999999999", "memver_", "memver_" + "0" * 32, "2h", "HEAD~", "\0"]
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = (
    scalars
    | st.sampled_from([*PATHS, *REVISIONS, "view", "delete", "create"])
    | st.lists(st.integers(-2, 3), max_size=3)
    | st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4)
)
calls = st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(FIELDS), values, max_size=5))
METHODS = sized(quick=2, long=600, full=5_000)


@settings(max_examples=METHODS, deadline=None)
@given(st.lists(calls, min_size=3, max_size=8))
def test_every_call_gets_a_result(made: Sequence[tuple[str, dict[str, Any]]]) -> None:
    async def run() -> None:
        with retentive.open("sqlite://", actor="user:ann") as opened:
            store = opened.store()
            async with connected(store) as client, connected(store, mode="legacy", one_tool=True) as older:
                for name, arguments in made:
                    for text, is_error in (
                        await reply_of(client, name, arguments),
                        await reply_of(older, ONE_TOOL, arguments),
                    ):
                        assert 0 < len(text) <= MAX_REPLY_CHARS
                        assert not is_error or "Error" in text or text.startswith(("The ", "No ", "Path "))
                assert not (await reply_of(client, "memory_view", {"path": "/memories"}))[1]

    asyncio.run(run())
