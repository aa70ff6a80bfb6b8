"""Tasks of `memory_value.py`: documents with one fact each, facts that only the user tells, and exact questions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

BIRDS = ("avocet", "bunting", "curlew", "dunlin", "egret", "fulmar", "godwit", "hobby", "ibis", "jackdaw", "kestrel")
PHRASES = (
    "the release was moved after the review",
    "one check of the harbour team had not finished in time",
    "nobody could say which of the two earlier builds had passed",
    "the notes list every step again with its date and owner",
)
CHARS_PER_TOKEN = 4
QUESTIONS = 2  # in each session, about documents of this session and about documents of earlier sessions


@dataclass(frozen=True)
class Message:
    """Message of the user. Only a question has an `answer`."""

    text: str
    answer: str | None = None


@dataclass(frozen=True)
class Task:
    """Documents by number, and the messages of the user in each session."""

    documents: dict[int, str]
    sessions: tuple[tuple[Message, ...], ...]


def make_task(seed: int, *, documents: int, tokens: int, sessions: int) -> Task:
    """Make a task of `documents` documents of `tokens` tokens. The same seed makes the same task."""
    rng = random.Random(seed)
    codes = {n: f"{rng.getrandbits(32):08x}" for n in range(1, documents + 1)}
    doors = [f"{rng.getrandbits(32):08x}" for _ in range(sessions)]
    texts = {n: _document(rng, n, code, tokens) for n, code in codes.items()}
    share = documents // sessions
    return Task(texts, tuple(tuple(_session(rng, n, share, codes, doors)) for n in range(sessions)))


def module(number: int) -> str:
    """Name of the module whose code is in this document."""
    return f"{BIRDS[number % len(BIRDS)]}-{number}"


def _session(rng: random.Random, number: int, share: int, codes: dict[int, str], doors: list[str]) -> Iterator[Message]:
    first, last = number * share + 1, (number + 1) * share
    yield Message(f"Remember: The door code of room {number + 1} is {doors[number]}. Reply with: noted")
    yield Message(f"Read documents {first} to {last}. Later questions are about them. Reply with: done")
    own, earlier = range(first, last + 1), range(1, first)
    asked = [*rng.sample(own, min(QUESTIONS, len(own))), *rng.sample(earlier, min(QUESTIONS, len(earlier)))]
    for document in asked:
        question = f"What is the release code of module {module(document)}? It is in one of the documents 1 to {last}."
        yield Message(f"{question} Reply with the code only, or with: unknown", codes[document])
    if number:
        room = rng.randrange(number)
        question = f"What is the door code of room {room + 1}? I told you in an earlier session."
        yield Message(f"{question} Reply with the code only, or with: unknown", doors[room])


def _document(rng: random.Random, number: int, code: str, tokens: int) -> str:
    sentences: list[str] = []
    while sum(map(len, sentences)) < tokens * CHARS_PER_TOKEN:
        sentences.append(f"{', and '.join(rng.sample(PHRASES, 2)).capitalize()}.")
    sentences.insert(rng.randrange(len(sentences)), f"The release code of module {module(number)} is {code}.")
    return f"Document {number}\n\n" + "\n".join(sentences)
