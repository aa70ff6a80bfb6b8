"""Processes that run an agent until they are killed: `python -m faults.process.agent_forks`.

Reads one task per line, as JSON. For each, it forks a process that continues the saved conversation, kills it after
`delay_s`, and prints its exit status. A fork costs far less than a new process that imports the SDK.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
from anthropic import Anthropic, AsyncAnthropic

import retentive
from retentive.agent import Agent, AsyncAgent, run_tools
from retentive.integrations.messages import TOOL
from support.targets import compile_patterns

TASK = "Write the lines."
ACTOR = "session:killed"
MODEL = "claude-sonnet-5-5"


def load(saved: Path) -> Any:
    """The saved conversation, or an empty list."""
    return json.loads(saved.read_text("utf-8")) if saved.exists() else []


def save(saved: Path, content: bytes) -> None:
    """Replace the file in one step."""
    beside = saved.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(saved)


def as_json(messages: object) -> bytes:
    return json.dumps(messages).encode()


def client_of(url: str) -> Anthropic:
    return Anthropic(base_url=url, api_key="none", http_client=httpx2.Client(verify=False))


def with_agent(url: str, place: str, saved: Path) -> None:
    messages = load(saved)
    with (
        client_of(url) as client,
        Agent(client, memory=place, actor=ACTOR, messages=messages, stream=True) as agent,
    ):
        for _ in agent.run(None if messages else TASK):
            save(saved, as_json(agent.saved()))


async def with_async_agent(url: str, place: str, saved: Path) -> None:
    messages = load(saved)
    http = httpx2.AsyncClient(verify=False)
    async with (
        AsyncAnthropic(base_url=url, api_key="none", http_client=http) as client,
        AsyncAgent(client, memory=place, actor=ACTOR, messages=messages) as agent,
        aclosing(agent.run(None if messages else TASK)) as events,
    ):
        async for _ in events:
            save(saved, as_json(agent.saved()))


def with_run_tools(url: str, place: str, saved: Path) -> None:
    messages = load(saved) or [{"role": "user", "content": TASK}]
    with client_of(url) as client, retentive.open(place) as opened:
        while True:
            if run_tools(messages, opened, actor=ACTOR):
                save(saved, as_json(messages))
            if messages[-1]["role"] == "assistant":
                return
            create: Any = client.beta.messages.create  # its overloads accept no messages as JSON
            reply = create(model=MODEL, max_tokens=1_000, messages=messages, tools=[TOOL])
            messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
            save(saved, as_json(messages))


RUNS: dict[str, Callable[[str, str, Path], object]] = {
    "Agent": with_agent,
    "AsyncAgent": lambda *given: asyncio.run(with_async_agent(*given)),
    "run_tools": with_run_tools,
}


def main() -> None:
    """Run each task in a forked process."""
    compile_patterns()
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                RUNS[task["kind"]](task["url"], task["place"], Path(task["saved"]))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        deadline = time.monotonic() + task["delay_s"]
        ended, status = os.waitpid(pid, os.WNOHANG)
        while not ended and time.monotonic() < deadline:
            time.sleep(0.0005)
            ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
