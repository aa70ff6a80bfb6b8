"""Plays a scenario through `Agent` or `AsyncAgent`, streamed or not, and checks its properties."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from anthropic import Anthropic
from anthropic.lib.tools import ToolError

import retentive
from retentive import MemoryStore, Retentive
from retentive.agent import Agent, AgentError, Budget, Event, Finished, ToolReply, memory_context
from retentive.agent.turns import NOT_RUN

from .claude import MCP_BETA, MCP_SERVER, MCP_TOOLS, SEARCH, Play, Wire
from .scenario import FUNCTIONS, IMAGE, REFUSALS, Scenario, Step

ACTOR = "session:fuzz"
REST = ("end_turn", "refusal", "max_tokens", "context_full", "other")
COMPLETE = ("end_turn", "stop_sequence", "tool_use")  # a reply may have the last one without a call
EXTRA_RUNS = 40  # at most this many runs end a scenario: each has one reply or one fault more


class Wrong(AssertionError):
    """A property does not hold."""


@dataclass
class Tool:
    """Function tool that counts its calls, with an unusual result."""

    name: str
    counts: Counter[int]

    def to_dict(self) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return {"name": self.name, "description": "A tool.", "input_schema": schema}

    def call(self, given: Any) -> Any:
        self.counts[given["n"]] += 1
        match self.name:
            case "raises":
                raise ValueError(f"half a \ud800 {given['n']}")
            case "refuses":
                raise ToolError([{"type": "text", "text": " "}])
        results: dict[str, Any] = {
            "echo": f"Result {given['n']}",
            "empty": "",
            "nothing": None,
            "odd": [{"type": "text", "text": " "}, IMAGE, {"type": "text", "text": "and text"}],
            "surrogate": "half a \ud800",
        }
        return results[self.name]


class Counted(MemoryStore):
    """Memory store that counts the commands of each number."""

    def __init__(self, store: MemoryStore, counts: Counter[int]) -> None:
        vars(self).update(vars(store))
        self._counts = counts

    def execute(self, command: Any, **options: Any) -> Any:
        number = command.get("n") or int(command["path"].rpartition("/")[2].removesuffix(".md"))
        self._counts[number] += 1
        return super().execute(command, **options)


@dataclass
class Run:
    """Events of one run, its error, and the saved conversation before and after the newest event."""

    events: list[Event] = field(default_factory=list)
    error: AgentError | None = None
    saved: list[str] = field(default_factory=list)

    def add(self, event: Event, saved: dict[str, Any], leave_after: int | None) -> bool:
        """Add an event. Returns True if the application leaves the run."""
        self.events.append(event)
        self.saved = [*self.saved[-1:], json.dumps(saved)]
        return leave_after is not None and len(self.of(ToolReply)) >= leave_after

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Outcome:
    """Conversation at the end, results of tools, and ends of runs."""

    history: str = ""
    replies: list[ToolReply] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)


class Fuzz:
    """Clients and memory for any number of scenarios."""

    def __init__(self, opened: Retentive) -> None:
        self._opened = opened
        self._wire = Wire()
        self._store_count = 0
        self.client = Anthropic(api_key="none", http_client=httpx2.Client(transport=self._wire))
        vars(self.client)["_calculate_retry_timeout"] = lambda *_args, **_kwargs: 0.0

    def check(self, scenario: Scenario) -> None:
        """Play a scenario plain and streamed. Raises `Wrong`, or what the agent raised."""
        first, streamed = (self.play(scenario, way) for way in ("plain", "streamed"))
        # A retried run counts its turns anew, and a stream that breaks is retried within the run.
        for name in ("history", "replies") if scenario.retries else ("history", "replies", "finished"):
            if getattr(streamed, name) != getattr(first, name):
                raise Wrong(f"{name} streamed:\n{getattr(streamed, name)}\nplain:\n{getattr(first, name)}")

    def play(self, scenario: Scenario, way: str) -> Outcome:
        """Play a scenario in one way."""
        self._wire.play = play = Play(scenario)
        self._wire.requests = 0
        self._store_count += 1
        game = _Game(scenario, play, self._opened.store(f"s{self._store_count}"), way)
        actions = game.actions()
        self.client.max_retries = scenario.retries
        agent, run = game.agent(self.client, ()), None
        try:
            while True:
                action = next(actions) if run is None else actions.send(run)
                if action.agent != "same":
                    agent = game.agent(self.client, json.loads(action.saved))
                run = _run(agent, action)
        except StopIteration:
            game.check(agent.messages)
            return game.outcome

    @property
    def requests(self) -> int:
        """Number of requests of the newest play without HTTP."""
        return self._wire.requests


@dataclass(frozen=True)
class _Action(Step):
    saved: str = "[]"


class _Game:
    """One way of playing a scenario: the next action after each run, and the checks."""

    def __init__(self, scenario: Scenario, play: Play, store: MemoryStore, way: str) -> None:
        self._scenario, self._play, self._way = scenario, play, way
        self._counts: Counter[int] = Counter()
        self._memory = Counted(store, self._counts)
        self._repeated: Counter[int] = Counter()
        self.outcome = Outcome()

    def agent(self, client: Any, messages: Any) -> Any:
        scenario = self._scenario
        tools = [Tool(name, self._counts) for name in FUNCTIONS]
        mcp: dict[str, Any] = {"mcp_servers": [dict(MCP_SERVER)], "betas": [MCP_BETA]}
        thinking: dict[str, Any] = {"type": scenario.thinking}
        if scenario.thinking == "enabled":
            thinking["budget_tokens"] = 1024
        return Agent(
            client,
            memory=self._memory,
            tools=[*tools, dict(SEARCH), dict(MCP_TOOLS)],
            context=memory_context() if scenario.context else None,
            budget=Budget(max_turns=scenario.max_turns),
            actor=ACTOR,
            messages=messages,
            stream=self._way == "streamed",
            cache=scenario.cache,
            request={**mcp, "thinking": thinking} if scenario.thinking else mcp,
        )

    def actions(self) -> Generator[_Action, Run, None]:
        """All steps, then runs without a message until the conversation is at rest."""
        run = None
        for step in self._scenario.steps:
            run = yield from self._step(step, run)
        for _ in range(EXTRA_RUNS):
            if run is not None and run.error is None and run.of(Finished) and run.of(Finished)[0].reason in REST:
                return
            run = yield _Action("Hello." if run is not None and _was_removed(run) else None)
            self._note(run)
        raise Wrong(f"the conversation does not come to rest: {run}")

    def _step(self, step: Step, before: Run | None) -> Generator[_Action, Run, Run]:
        message = step.message or ("Hello." if before is not None and _was_removed(before) else None)
        action = _Action(message, step.leave_after, "same")
        if step.agent != "same" and before is not None and before.saved:
            after_result = before.error is None and isinstance(before.events[-1], ToolReply) and len(before.saved) == 2
            killed = step.agent == "killed" and after_result
            action = _Action(message, step.leave_after, step.agent, before.saved[0 if killed else -1])
            if killed:
                self._forget(before)
        run = yield action
        self._note(run)
        left = step.leave_after
        while run.error is not None and self._scenario.retries:
            left = None if left is None else left - len(run.of(ToolReply))
            run = yield _Action((message or "Hello.") if _was_removed(run) else None, left)
            self._note(run)
        return run

    def _forget(self, run: Run) -> None:
        """The newest result was not saved, so its call runs again."""
        messages = json.loads(run.saved[-1])["messages"]
        newest = run.events[-1]
        assert isinstance(newest, ToolReply)
        uses = {block["id"]: block["input"] for message in messages for block in _blocks(message, "tool_use")}
        if newest.id not in uses or newest.text == NOT_RUN:
            return
        given = uses[newest.id]
        self._repeated[given.get("n") or int(given["path"].rpartition("/")[2].removesuffix(".md"))] += 1

    def _note(self, run: Run) -> None:
        self.outcome.replies += run.of(ToolReply)
        self.outcome.finished += run.of(Finished)
        if any(end.reason == "end_turn" for end in run.of(Finished)) and self._play.last_stop not in COMPLETE:
            raise Wrong(f"a run ended as if Claude was done after {self._play.last_stop}")
        if self._play.rejections:
            raise Wrong(f"a request was rejected: {self._play.rejections[0]}")
        if self._play.claude.failures:
            raise Wrong(f"the script failed: {self._play.claude.failures[0]}")
        if run.error is not None and not run.error.retryable and run.error.status not in REFUSALS:
            raise Wrong(f"the run ended with {run.error!r}")

    def check(self, messages: list[dict[str, Any]]) -> None:
        """Check that each call ran once, and has one result that shows its effect."""
        self.outcome.history = json.dumps(messages)
        expected = Counter(self._play.runnable) + self._repeated
        if self._counts != expected:
            raise Wrong(f"calls ran {dict(self._counts)} times, expected {dict(expected)}")
        uses = {block["id"]: block for message in messages for block in _blocks(message, "tool_use")}
        results = Counter(block["tool_use_id"] for message in messages for block in _blocks(message, "tool_result"))
        if results != Counter(uses.keys()):
            raise Wrong(f"results {dict(results)} do not match the calls {list(uses)}")
        for message in messages:
            for block in _blocks(message, "tool_result"):
                given = uses[block["tool_use_id"]]["input"]
                created = given.get("command") == "create" and block["content"] != NOT_RUN
                if created and block["content"] != f"File created successfully at: {given['path']}":
                    raise Wrong(f"{given} was answered with {block['content']!r}")


def _was_removed(run: Run) -> bool:
    """Return True if the API refused the message of a run, and no other message awaits an answer."""
    if run.error is None or run.error.status not in (400, 413):
        return False
    messages = json.loads(run.saved[-1])["messages"]
    return not messages or messages[-1]["role"] == "assistant"


def _run(agent: Any, action: _Action) -> Run:
    run = Run()
    try:
        with closing(agent.run(action.message)) as events:
            for event in events:
                if run.add(event, agent.saved(), action.leave_after):
                    break
    except AgentError as error:
        run.error = error
        run.saved = [json.dumps(agent.saved())]
    return run


def _blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message["content"]
    return [block for block in content if block["type"] == kind] if isinstance(content, list) else []


@contextmanager
def fuzzing() -> Iterator[Fuzz]:
    """Open what scenarios need."""
    with retentive.open("sqlite://") as opened:
        fuzz = Fuzz(opened)
        with fuzz.client:
            yield fuzz
