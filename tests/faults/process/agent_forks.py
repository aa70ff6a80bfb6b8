"""Processes that run an agent until they are killed: `python -m faults.process.agent_forks`.

Reads one task per line, as JSON. For each, it forks a process that continues the saved conversation, kills it after
`delay_s`, and prints its exit status. A fork costs far less than a new process that imports the SDK and LangGraph.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
from anthropic import Anthropic, AsyncAnthropic
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langgraph.checkpoint.memory import InMemorySaver

import retentive
from retentive.agent import Agent, AsyncAgent, Finished, run_tools
from retentive.integrations.langchain import memory_tool
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


def with_agent(url: str, place: str, saved: Path, *, stream: bool = False) -> None:
    messages = load(saved)
    with (
        client_of(url) as client,
        Agent(client, memory=place, actor=ACTOR, messages=messages, stream=stream) as agent,
    ):
        for _ in agent.run(None if messages else TASK):
            save(saved, as_json(agent.saved()))


def with_streaming_agent(url: str, place: str, saved: Path) -> None:
    with_agent(url, place, saved, stream=True)


async def _with_async_agent(url: str, place: str, saved: Path, cancel_after: int) -> None:
    messages = load(saved)
    http = httpx2.AsyncClient(verify=False)
    async with (
        AsyncAnthropic(base_url=url, api_key="none", http_client=http) as client,
        AsyncAgent(client, memory=place, actor=ACTOR, messages=messages) as agent,
        aclosing(agent.run(None if messages else TASK)) as events,
    ):
        async for event in events:
            save(saved, as_json(agent.saved()))
            cancel_after -= 1
            if not cancel_after and not isinstance(event, Finished):
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_later(0.001, task.cancel)


def with_async_agent(url: str, place: str, saved: Path) -> None:
    asyncio.run(_with_async_agent(url, place, saved, 0))


def with_cancellation(url: str, place: str, saved: Path) -> None:
    """The task is cancelled soon after its second event, wherever it then is."""
    try:
        asyncio.run(_with_async_agent(url, place, saved, 2))
    except asyncio.CancelledError:
        sys.exit(3)


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


class FileSaver(InMemorySaver):
    """Checkpoints in a file, replaced after each change."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._lock = threading.Lock()
        if path.exists():
            storage, writes, blobs = pickle.loads(path.read_bytes())
            for thread, spaces in storage.items():
                for space, checkpoints in spaces.items():
                    self.storage[thread][space] = checkpoints
            self.writes.update(writes)
            self.blobs.update(blobs)

    def _save(self) -> None:
        storage = {thread: dict(spaces) for thread, spaces in self.storage.items()}
        save(self._path, pickle.dumps((storage, dict(self.writes), dict(self.blobs))))

    def put(self, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            made = super().put(*arguments, **options)
            self._save()
        return made

    def put_writes(self, *arguments: Any, **options: Any) -> None:
        with self._lock:
            super().put_writes(*arguments, **options)
            self._save()


def with_langgraph(url: str, place: str, saved: Path) -> None:
    model = ChatAnthropic(model_name=MODEL, base_url=url, api_key="none", max_retries=0, timeout=60, stop=None)  # type: ignore[arg-type] # a secret
    with retentive.open(place) as opened:
        graph: Any = create_agent(
            model, tools=[memory_tool(opened.store(), actor=ACTOR)], checkpointer=FileSaver(saved)
        )
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": 200}
        state = graph.get_state(config)
        graph.invoke(None if state.values else {"messages": [("user", TASK)]}, config, durability="sync")


RUNS = {
    "Agent": with_agent,
    "Agent streaming": with_streaming_agent,
    "AsyncAgent": with_async_agent,
    "AsyncAgent cancelled": with_cancellation,
    "run_tools": with_run_tools,
    "LangGraph": with_langgraph,
}


def tasks() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    """Run each task in a forked process."""
    compile_patterns()
    for task in tasks():
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                RUNS[task["kind"]](task["url"], task["place"], Path(task["saved"]))
                status = 0
            except SystemExit as left:
                status = int(left.code or 0)
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
