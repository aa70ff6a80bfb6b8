"""A small HTTP server that answers `POST /v1/messages` from a script. It is a script, not a model.

It is for testing agents and memory tools without a key, a bill or luck: what the assistant says and calls is
fixed, everything around it is real: your client, its tool loop, HTTP, and the tool that runs. It never
pretends to be a model: every response has the header `x-scripted-claude`, the model "scripted-claude" and an
id `msg_scripted_...`.

    look = Call({"command": "view", "path": "/memories"}, Check(contains=("/memories",)))
    script = Script((Turn(("Let me look.", look)), Turn(("Nothing there yet.",))))
    with scripted_claude(script) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="none needed")
        client.beta.messages.tool_runner(tools=[...], ...).until_done()
    assert server.failures == []

**Which turn comes next** follows from the number of assistant messages in the conversation, so nothing
depends on the order of requests and many conversations may run at once. Given several scripts, the first
whose `when` occurs in the first user message is played; after its last turn every reply is a closing text
with "end_turn".

**Checks** belong to the call they are about and are asked when its result comes back. A check that fails is
answered with HTTP 400 and an error that names turn, expected and actual, and is kept in `server.failures`. So
are a call of a tool that the request did not offer, tool calls that came back changed, and a conversation no
script is for.

**A function as a script** gets what the model sees of a request, a `Seen`, and says what comes next: a text, a `Call`,
a `Turn`, or a list of them. It sees cleared and compacted messages as they are then, so a test can prove that an
agent gets by with its memory.

    def answer(seen: Seen) -> Turn | str | Call | list: ...
    with scripted_claude(answer, context_window=20_000) as server: ...

**Like the API** it takes plain and streamed requests, `messages` and `beta.messages`, and message threads
(the `anthropic` SDK's `tool_runner` uses them unless told `thread=False`): it holds the conversation under
the id of its last reply, each reply can be continued once, and `context_management` cannot be threaded. It clears
tool uses and thinking, compacts, counts tokens (an estimate), warns before clearing, and fails when told to. It
refuses, with the API's error shape, what the API refuses: no key, no version, missing fields, tool calls
without a result and results without a call, what needs a beta header without it. What is not in a script does
not happen: no caching, no server tools, no limit by `max_tokens`. Each rule, with its test, and what was chosen where
the documentation is silent (`Choices`): docs/testing-your-agent.md.

**As a program**, `python -m retentive.testing.scripted_claude --port 8765 SCRIPT.json` prints its URL as
its first line and serves until stopped; it then exits 1 if a script failed. `GET /scripted` tells requests
and failures. `MODULE:FUNCTION` instead of a file serves a function; such a server remembers no request. The file:

    {"scripts": [
      {"name": "first visit", "when": "my name is",
       "turns": [
         {"blocks": ["Let me look.",
                     {"call": {"command": "view", "path": "/memories"},
                      "check": {"text": "...", "contains": ["..."], "is_error": false}}]},
         {"blocks": [{"thinking": "Noted, then."}, "Hello again."]}]}]}

or one entry of "scripts" alone. `name`, `when`, `check` and all within it may be left out; a block may have
the `name` of another tool, a turn a `stop_reason`. Without `is_error` a check expects no error; null is
either.
"""

from __future__ import annotations

from retentive.testing.scripted_claude.choices import Choices
from retentive.testing.scripted_claude.faults import Broken, Cut, Refused
from retentive.testing.scripted_claude.observations import Seen, SeenCall
from retentive.testing.scripted_claude.reply import MODEL, THE_END, Failure
from retentive.testing.scripted_claude.script import (
    Call,
    Check,
    Result,
    Script,
    ScriptError,
    Thinking,
    Turn,
    scripts_from_json,
)
from retentive.testing.scripted_claude.server import Exchange, Options, ScriptedClaude, scripted_claude

__all__ = [
    "MODEL",
    "THE_END",
    "Broken",
    "Call",
    "Check",
    "Choices",
    "Cut",
    "Exchange",
    "Failure",
    "Options",
    "Refused",
    "Result",
    "Script",
    "ScriptError",
    "ScriptedClaude",
    "Seen",
    "SeenCall",
    "Thinking",
    "Turn",
    "scripted_claude",
    "scripts_from_json",
]
