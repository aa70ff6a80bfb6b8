"""Pytest plugin with the fixture `scripted_claude`.

To load it, write `pytest_plugins = ["retentive.testing.pytest_plugin"]` in your `conftest.py`. The plugin is not
registered as an entry point. If it were, pytest would import it in every project that has retentive installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from retentive.testing.scripted_claude import Script, ScriptedClaude
from retentive.testing.scripted_claude.script import ScriptFunction


@pytest.fixture
def scripted_claude() -> Iterator[Callable[..., ScriptedClaude]]:
    """Fixture: a function that starts a scripted Claude and returns it.

    The function takes the arguments of `scripted_claude` in the package `retentive.testing.scripted_claude`.

    The scripted Claude stops at the end of the test. The test fails if a script failed, if a client sent a request
    after the last turn of a script, or if some turns of a script were not played.
    """
    started: list[ScriptedClaude] = []
    with ExitStack() as servers:

        def start(*scripts: Script | ScriptFunction, **options: Any) -> ScriptedClaude:
            started.append(servers.enter_context(ScriptedClaude(*scripts, **options)))
            return started[-1]

        yield start
    for server in started:
        server.verify()
