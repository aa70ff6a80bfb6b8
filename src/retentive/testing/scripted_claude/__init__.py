"""HTTP server that answers `POST /v1/messages` from a script, for testing agents and memory tools.

Tests need no API key and cost nothing, and the script determines every reply. Everything else is real: your client, its
tool loop, HTTP, and the tools. The server is not a model and says so: every response has the header
`x-scripted-claude`, the model "scripted-claude" and an id `msg_scripted_...`.

    look = Call({"command": "view", "path": "/memories"}, Check(contains=("/memories",)))
    script = Script((Turn(("Let me look.", look)), "Nothing there yet."))
    with scripted_claude(script) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="none needed")
        client.beta.messages.tool_runner(tools=[...], ...).until_done()
    server.verify()

**The next turn** of a script is selected by the number of assistant messages in the conversation, so conversations can
run concurrently and in any order. If there are several scripts, the server uses the first script whose `when` occurs in
the first user message. A turn can be a plain string. A script can also be a function of the `Prompt`, the request
as the model sees it.

**Failures** return HTTP 400 with an error that names the turn, the expected and the actual value, and are appended to
`server.failures`: a failed check, a call of a tool that the request does not offer, tool calls that the client sent
back modified, a request after the last turn, and a conversation without a script. `server.verify()` raises an
`AssertionError` for failures and for turns that were not played. The fixture of `retentive.testing.pytest_plugin` calls
it at the end of each test.

**Invalid requests** are refused with the status and the words of the API. `rules.RULES` is the table of the rules.
docs/testing-your-agent.md lists the supported and the unsupported features.
"""

from __future__ import annotations

from retentive.testing.scripted_claude.claude import Exchange, Options, ScriptedClaude
from retentive.testing.scripted_claude.faults import Disconnect, ErrorResponse, StreamError
from retentive.testing.scripted_claude.http import scripted_claude
from retentive.testing.scripted_claude.prompt import Prompt, Result, ToolUse
from retentive.testing.scripted_claude.reply import MODEL, Failure
from retentive.testing.scripted_claude.script import Call, Check, Raw, Script, ScriptError, Thinking, Turn

__all__ = [
    "MODEL",
    "Call",
    "Check",
    "Disconnect",
    "ErrorResponse",
    "Exchange",
    "Failure",
    "Options",
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
