"""Value of a memory over sessions that outgrow the context window: `python benchmarks/memory_value.py`.

In each task, a user tells facts, has documents read, and asks for exact values, over several sessions. Each session is
a new conversation. A conversation whose prompt exceeds the window ends, and the message is asked again in a new one,
once. The same agent loop runs with and without the memory tool, and with and without context editing.

By default the scripted Claude answers, with the policy of `memory_policy.py`. `--live` asks a real model, and needs
ANTHROPIC_API_KEY: one task takes about a thousand requests. `input` counts all tokens of the prompts, cached or not.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from anthropic import Anthropic, beta_tool

import retentive
from figures import table
from memory_policy import next_turn
from memory_tasks import Message, Task, make_task
from retentive import MemoryStore
from retentive.agent import (
    Agent,
    AgentError,
    Budget,
    Finished,
    InputTokens,
    TokenUsage,
    UsageReport,
    memory_context,
)
from retentive.testing.scripted_claude import scripted_claude

CONVERSATIONS = 2  # for one message
SYSTEM = "Answer the questions of the user about documents. Read a document with the tool read_document."
VARIANTS = {
    "no memory, no editing": (False, False),
    "no memory, editing": (False, True),
    "memory, no editing": (True, False),
    "memory, editing": (True, True),
}


@dataclass
class Score:
    """Sums over the tasks of one variant. `repeats` are reads of a document that was read before in the task."""

    questions: int = 0
    right: int = 0
    given_up: int = 0
    requests: int = 0
    reads: int = 0
    repeats: int = 0
    input: int = 0
    output: int = 0

    def count(self, usage: TokenUsage) -> None:
        """Add the usage of a response."""
        self.input += usage.total_tokens - usage.output_tokens
        self.output += usage.output_tokens


class WithoutMemory:
    """Client that removes the memory tool from requests, so that the loop is the same with and without memory."""

    def __init__(self, client: Anthropic) -> None:
        self._client = client
        self.max_retries = client.max_retries
        self.beta = SimpleNamespace(messages=SimpleNamespace(create=self._create))

    def _create(self, **request: Any) -> object:
        tools = [tool for tool in request.pop("tools") if tool["name"] != "memory"]
        return self._client.beta.messages.create(**request, tools=tools)


class Player:
    """Plays a task with one variant and adds to its score. Each session starts with `start_session`."""

    def __init__(self, client: Anthropic, task: Task, score: Score, options: argparse.Namespace, variant: str) -> None:
        self._client, self._task, self._score, self._options = client, task, score, options
        self._memory, self._editing = VARIANTS[variant]
        self._read: set[int] = set()

    def play(self, store: MemoryStore) -> None:
        """Play all sessions of the task, each in a new conversation."""
        for messages in self._task.sessions:
            agent = self._new_agent(store)
            for message in messages:
                agent = self._ask(agent, message, store)

    def _ask(self, agent: Agent, message: Message, store: MemoryStore) -> Agent:
        """Send a message and score the answer. Returns the agent with the current conversation."""
        answer = None
        for attempt in range(CONVERSATIONS):
            if attempt:
                agent = self._new_agent(store)
            if (answer := self._run(agent, message.text)) is not None:
                break
        self._score.given_up += answer is None
        if message.answer is not None:
            self._score.questions += 1
            self._score.right += (answer or "").strip(" .`*\n") == message.answer
        return agent if answer is not None else self._new_agent(store)

    def _run(self, agent: Agent, text: str) -> str | None:
        """Run to the answer. Returns None if the conversation does not fit into the window."""
        try:
            with closing(cast("Any", agent.run(text))) as events:
                for event in events:
                    match event:
                        case UsageReport(usage=usage):
                            self._score.requests += 1
                            self._score.count(usage)
                            if usage.total_tokens - usage.output_tokens > self._options.window:
                                return None
                        case Finished(reason="end_turn", text=answer):
                            return answer
        except AgentError as error:
            if "prompt is too long" not in str(error):
                raise
        return None

    def _new_agent(self, store: MemoryStore) -> Agent:
        window = self._options.window
        editing = memory_context(trigger=InputTokens(window // 2), keep=2, clear_at_least=window // 4)
        return Agent(
            self._client if self._memory else cast("Anthropic", WithoutMemory(self._client)),
            model=self._options.model,
            memory=store,
            tools=[beta_tool(self.read_document)],
            context=editing if self._editing else None,
            system=SYSTEM,
            tidy=self._memory,
            budget=Budget(max_turns=4 * len(self._task.documents) + 20),
        )

    def read_document(self, number: int) -> str:
        """Read a document.

        Args:
            number: Number of the document.
        """
        self._score.reads += 1
        self._score.repeats += number in self._read
        self._read.add(number)
        return self._task.documents.get(number, f"There is no document {number}.")


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[Anthropic]:
    """Client of the API with `--live`, otherwise of a scripted Claude."""
    if options.live:
        with Anthropic(max_retries=8) as client:
            yield client
        return
    with (
        scripted_claude(next_turn, keep_requests=False) as server,
        Anthropic(base_url=server.url, api_key="none needed") as client,
    ):
        yield client


def measured(variant: str, options: argparse.Namespace) -> Score:
    """Score of a variant over all tasks. Each task has a new memory."""
    score = Score()
    for seed in range(options.tasks):
        task = make_task(seed, documents=options.documents, tokens=options.tokens, sessions=options.sessions)
        # Each variant has its own server, whose prompt cache is empty.
        with connected(options) as client, retentive.open("sqlite://") as opened:
            Player(client, task, score, options, variant).play(opened.store())
    return score


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command line. Ends the process if `--live` has no key."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, help="number of tasks (default: 5, with --live 1)")
    parser.add_argument("--documents", type=int, default=48, help="documents in a task (default: 48)")
    parser.add_argument("--tokens", type=int, default=2_000, help="tokens of a document (default: 2,000)")
    parser.add_argument("--sessions", type=int, default=4, help="sessions of a task (default: 4)")
    parser.add_argument("--window", type=int, default=16_000, help="context window in tokens (default: 16,000)")
    parser.add_argument("--live", action="store_true", help="ask a real model; needs ANTHROPIC_API_KEY and costs money")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    options = parser.parse_args(arguments)
    if options.live and not os.environ.get("ANTHROPIC_API_KEY"):
        parser.error("--live asks a real model and needs ANTHROPIC_API_KEY; leave it out for the scripted Claude")
    options.tasks = options.tasks or (1 if options.live else 5)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores of all variants."""
    options = parsed(arguments)
    names = (
        "variant",
        "right",
        "given up",
        "requests",
        "reads",
        "repeats",
        "input",
        "output",
    )
    rows = []
    for variant in VARIANTS:
        score = measured(variant, options)
        counts = [f"{getattr(score, name.replace(' ', '_')):,}" for name in names[2:]]
        rows.append([variant, f"{score.right} of {score.questions}", *counts])
    print(table(names, rows))


if __name__ == "__main__":
    main()
