"""Random conversations: the replies of Claude with their faults, and the steps of the application."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from retentive.testing.scripted_claude import Disconnect, ErrorResponse, StreamError

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
IMAGE: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
DOCUMENT: dict[str, Any] = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "A note."},
}
FUNCTIONS = ("echo", "empty", "nothing", "odd", "raises", "refuses", "surrogate")
CALLS = ("create", "view", "invalid", *FUNCTIONS)
TRUNCATED = ("max_tokens", "model_context_window_exceeded", "refusal", "stop_sequence", "end_turn")
REFUSALS = (400, 401, 413)  # error statuses that are not retried


@dataclass(frozen=True)
class Part:
    """Block of a reply. `number` is unique in the conversation. `done` is True for a server call with its result."""

    kind: str
    number: int
    done: bool = False


Fault = ErrorResponse | Disconnect | StreamError


@dataclass(frozen=True)
class Reply:
    """Reply of Claude. Each of the faults makes one request fail before the reply is sent."""

    parts: tuple[Part, ...]
    stop_reason: str
    faults: tuple[Fault, ...] = ()

    @property
    def runs(self) -> bool:
        return self.stop_reason in ("tool_use", "pause_turn")

    @property
    def can_pause(self) -> bool:
        """True if the reply has a block that can be sent back, so that the next request continues the turn."""
        return any(part.kind not in ("blank", "failed compaction") for part in self.parts)


@dataclass(frozen=True)
class Step:
    """Run of the agent: without a message if `message` is None, and left after `leave_after` results of tools.

    `agent` is "same", "saved" (a new agent continues the saved conversation) or "killed" (the same, but the newest
    result was not saved).
    """

    message: Any = None
    leave_after: int | None = None
    agent: str = "same"


@dataclass(frozen=True)
class Scenario:
    """Random conversation. Without `retries`, each fault ends a run with an error."""

    seed: int
    replies: tuple[Reply, ...]
    steps: tuple[Step, ...]
    retries: int = 0
    max_turns: int = 50
    context: bool = True
    cache: bool = True
    thinking: str = ""


def make_scenario(seed: int) -> Scenario:
    """Make a scenario. The same seed makes the same one."""
    rng = random.Random(seed)
    retries = rng.choice((0, 0, 2))
    thinking = rng.choice(("", "", "adaptive", "enabled"))
    numbers = iter(range(1, 1_000))
    replies = tuple(_reply(rng, numbers, thinking) for _ in range(rng.randint(1, 6)))
    first = Step(_message(rng), leave_after=rng.choice((None, None, None, 1, 2)))
    return Scenario(
        seed,
        replies,
        (first, *(_step(rng) for _ in range(rng.randint(0, 5)))),
        retries,
        max_turns=50 if retries else rng.choice((50, 50, 1, 2, 3)),
        context=rng.random() < 0.7,
        cache=rng.random() < 0.7,
        thinking=thinking,
    )


def _reply(rng: random.Random, numbers: Iterator[int], thinking: str) -> Reply:
    faults = _faults(rng)
    stop = rng.choice(("tool_use",) * 5 + ("pause_turn",) * 2 + ("compaction", *TRUNCATED, "end_turn"))
    if stop == "compaction":
        return Reply((Part("compaction", next(numbers)),), stop, faults)
    parts: list[Part] = []
    if rng.random() < 0.12:
        parts.append(Part(rng.choice(("compaction", "compaction", "failed compaction")), next(numbers)))
    if thinking and (thinking == "enabled" or rng.random() < 0.6):
        parts.append(Part(rng.choice(("thinking", "thinking", "redacted thinking")), next(numbers)))
    kinds = ["text", "text", "blank", "cited", "server", "server", "server error", "server mcp", "server mcp error"]
    for _ in range(rng.randint(0, 3)):
        kind = rng.choice(kinds)
        parts.append(Part(kind, next(numbers), done=kind.startswith("server") and rng.random() < 0.6))
    if stop == "tool_use" or (stop != "pause_turn" and rng.random() < 0.3) or rng.random() < 0.1:
        parts += [Part(rng.choice(CALLS), next(numbers)) for _ in range(rng.randint(1, 3))]
    if stop == "pause_turn" and not any(part.kind in CALLS for part in parts) and rng.random() < 0.6:
        parts.append(Part("server", next(numbers), done=rng.random() < 0.3))
    if not parts and stop != "refusal" and rng.random() < 0.8:
        parts.append(Part("text", next(numbers)))
    return Reply(tuple(_ordered(parts, stop)), stop, faults)


def _ordered(parts: list[Part], stop: str) -> list[Part]:
    """Only the last server call of a paused reply, or of one with client calls, has no result yet."""
    if stop not in ("tool_use", "pause_turn"):
        return parts
    return [replace(part, done=True) if part.kind.startswith("server") else part for part in parts[:-1]] + parts[-1:]


def _faults(rng: random.Random) -> tuple[Fault, ...]:
    """Refusals come first: the agent removes a refused message only in the run that it was passed to."""
    faults = [_fault(rng) for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2)))]
    return tuple(sorted(faults, key=lambda fault: not (isinstance(fault, ErrorResponse) and fault.status in REFUSALS)))


def _fault(rng: random.Random) -> Fault:
    kind = rng.randrange(4)
    if kind == 0:
        return ErrorResponse(rng.choice(REFUSALS))
    if kind == 1:
        return ErrorResponse(rng.choice((429, 500, 529, 504)))
    if kind == 2:
        return Disconnect(rng.choice((None, 0, 1, 2, 3, 3)))  # an empty reply has four events
    return StreamError(min(rng.randint(1, 4), 3), rng.choice((500, 529)))


def _step(rng: random.Random) -> Step:
    message = _message(rng) if rng.random() < 0.6 else None
    return Step(message, rng.choice((None, None, 1, 2)), rng.choice(("same", "same", "saved", "killed")))


def _message(rng: random.Random) -> str | list[Mapping[str, Any]]:
    text = rng.choice(("Hello.", "Go on, please.", "Grüße, 世界 \N{WAVING HAND SIGN}"))
    extra = rng.choice((None, None, None, IMAGE, DOCUMENT))
    return text if extra is None else [extra, {"type": "text", "text": text}]
