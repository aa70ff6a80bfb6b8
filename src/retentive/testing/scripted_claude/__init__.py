"""HTTP server that answers `POST /v1/messages` from a script, to test agents and memory tools.

Tests need no API key and cost nothing. The script determines every reply. Everything else is real: your client, its
tool loop, HTTP, and the tools. Responses cannot be mistaken for those of a model: each has the header
`x-scripted-claude`, the model "scripted-claude" and an id that starts with `msg_scripted_`.

    look = Call({"command": "view", "path": "/memories"}, Check(contains=("/memories",)))
    script = Script((Turn(("Let me look.", look)), "Nothing there yet."))
    with scripted_claude(script) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="none needed")
        client.beta.messages.tool_runner(tools=[...], ...).until_done()
    server.verify()

**Turns.** A script is a sequence of turns. A turn is a reply of the assistant; it can be a plain string. The number of
assistant messages in a request determines the next turn, so conversations can run concurrently and in any order. If
there are several scripts, the server uses the first script whose `when` occurs in the first user message. A script can
also be a function. The function gets a `Prompt` (the request as the model would see it) and returns the next turn.

**Failures.** The test fails if a check fails, if a turn calls a tool that is not in the request, if the client changes
earlier tool calls, if the client sends a request after the last turn, or if no script matches the conversation. In each
of these cases, the server returns HTTP 400 with an error that names the turn, the expected value and the actual value.
It also appends the failure to `server.failures`. `server.verify()` raises an `AssertionError` if there are failures or
unplayed turns. The fixture of `retentive.testing.pytest_plugin` calls `verify` at the end of each test.

**Invalid requests** get the status and the error message of the API, as far as the module `requests` knows its rules.
docs/library.md lists the supported and the unsupported features.
"""

from __future__ import annotations

from retentive.testing.scripted_claude.claude import MODEL, Exchange, Failure, ScriptedClaude
from retentive.testing.scripted_claude.prompt import Prompt, Result, ToolUse
from retentive.testing.scripted_claude.script import (
    ApiError,
    Call,
    Check,
    Disconnect,
    ErrorResponse,
    Fault,
    Raw,
    Script,
    ScriptError,
    StreamError,
    Thinking,
    Turn,
)

scripted_claude = ScriptedClaude

__all__ = [
    "MODEL",
    "ApiError",
    "Call",
    "Check",
    "Disconnect",
    "ErrorResponse",
    "Exchange",
    "Failure",
    "Fault",
    "Prompt",
    "Raw",
    "Result",
    "Script",
    "ScriptError",
    "ScriptedClaude",
    "StreamError",
    "Thinking",
    "ToolUse",
    "Turn",
    "scripted_claude",
]
