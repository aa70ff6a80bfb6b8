"""Pytest plugin with a fixture for the scripted Claude: `pytest_plugins = ["retentive.testing.pytest_plugin"]`.

It is not an entry point, so that pytest does not import retentive in projects that only store memories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Unpack

import pytest

from retentive.testing.scripted_claude import Options, Script, ScriptedClaude
from retentive.testing.scripted_claude import scripted_claude as serve
from retentive.testing.scripted_claude.script import ScriptFunction


@pytest.fixture
def scripted_claude() -> Iterator[Callable[..., ScriptedClaude]]:
    """Function that serves scripts until the end of the test, with the arguments of `scripted_claude`.

    The test fails if a script failed, was overrun, or was not played to its last turn.
    """
    started: list[ScriptedClaude] = []
    with ExitStack() as servers:

        def start(*scripts: Script | ScriptFunction, **options: Unpack[Options]) -> ScriptedClaude:
            started.append(servers.enter_context(serve(*scripts, **options)))
            return started[-1]

        yield start
    for server in started:
        server.verify()
