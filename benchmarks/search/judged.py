"""Judged set of questions for search: memories in five languages, and the memories that answer each question.

The facts, questions and filler lines are written for this set (`facts.*.txt`). This module fills in people, places and
dates, and distributes the facts over files of customers, chat sessions and notes about code, always in the same way.
The same facts occur for several people, so most words of an answer occur in other memories too. One question in twelve
has a typo. Tune only on the half `tune`; figures are published for the half `held_out`.
"""

from __future__ import annotations

import random
import re
import zlib
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

LANGUAGES = ("en", "de", "fr", "es", "ja")
_FOLDER = Path(__file__).parent
_QUESTIONS = {"en": (50, 72, 16, 12), "other": (24, 40, 6, 8)}  # about files, chats, code and dates
_FACTS_OF_FILE = 8
_FACTS_OF_CHAT = {"en": 4, "other": 2}
_TYPOS = 12
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
_FORMATS = {
    "en": ("{day} {month} {year}", "{month} {day}, {year}", "{iso}"),
    "de": ("{day}. {month} {year}", "{day:02}.{number:02}.{year}", "{iso}"),
    "fr": ("{day} {month} {year}", "{iso}"),
    "es": ("{day} de {month} de {year}", "{iso}"),
    "ja": ("{year}年{number}月{day}日", "{iso}"),
}
_ABOUT_DATES = {
    "en": "What did {name} talk about on {date}?",
    "de": "Worüber sprach {name} am {date}?",
    "fr": "De quoi {name} a-t-elle parlé le {date} ?",
    "es": "¿De qué habló {name} el {date}?",
    "ja": "{name}さんは{date}に何を話しましたか?",
}


@dataclass(frozen=True, slots=True)
class Question:
    """Question, and the paths of all memories that are needed to answer it."""

    language: str
    kind: str
    text: str
    needed: frozenset[str]

    @property
    def half(self) -> str:
        """`tune` or `held_out`, by a checksum of the text."""
        return "tune" if zlib.crc32(self.text.encode()) % 2 else "held_out"


@dataclass(frozen=True, slots=True)
class _Fact:
    text: str
    questions: tuple[str, ...]


class _Builder:
    """Memories and questions of one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.random = random.Random(f"judged {language}")
        self.memories: dict[str, str] = {}
        self.asked: dict[str, list[Question]] = {"file": [], "chat": [], "code": [], "date": []}
        self._read((_FOLDER / f"facts.{language}.txt").read_text(encoding="utf-8"))
        for index, name in enumerate(self.names):
            self._file(index, name)
        pairs = [self.names[at : at + 2] for at in range(0, len(self.names), 2)]
        for number, (one, two) in enumerate(pairs):
            self._chats(number, one, two)
        self._code()

    def _read(self, text: str) -> None:
        head, *sections = re.split(r"^\[(\w+)\]\n", text, flags=re.MULTILINE)
        lists = dict(line.split(": ", 1) for line in head.strip().splitlines())
        self.names, self.places, self.things = (lists[key].split("; ") for key in ("names", "places", "things"))
        by_name = dict(zip(sections[::2], sections[1::2], strict=True))
        self.filler = by_name.pop("filler").strip().splitlines()
        self.facts: dict[str, list[_Fact]] = {}
        for name, body in by_name.items():
            blocks = [part.strip().split("\nQ: ") for part in body.split("T: ")[1:]]
            self.facts[name] = [_Fact(each[0], tuple(each[1:])) for each in blocks]

    def _day(self) -> date:
        return date(2022, 1, 3) + timedelta(days=self.random.randrange(1_000))

    def _written(self, day: date, choice: int | None = None) -> str:
        formats = _FORMATS[self.language]
        chosen = self.random.choice(formats) if choice is None else formats[choice % len(formats)]
        names = _MONTHS.get(self.language, "").split()
        month = names[day.month - 1] if names else ""
        return chosen.format(day=day.day, month=month, number=day.month, year=day.year, iso=day.isoformat())

    def _filled(self, text: str, name: str) -> str:
        other = self.random.choice([each for each in self.names if each != name])
        slots = {"name": name, "other": other, "place": self.random.choice(self.places)}
        return text.format(**slots, thing=self.random.choice(self.things), date=self._written(self._day()))

    def _ask(self, kind: str, fact: _Fact, name: str, path: str) -> None:
        text = self.random.choice(fact.questions).format(name=name)
        self.asked[kind].append(Question(self.language, kind, text, frozenset({path})))

    def _file(self, index: int, name: str) -> None:
        """Two files of a customer: headings, dated lines and filler."""
        facts = self.random.sample(self.facts["file"], _FACTS_OF_FILE)
        for part, title in enumerate(("profile", "log")):
            path = f"/memories/{self.language}/customers/{index:02}/{title}.md"
            lines = [f"# {name}", ""]
            for fact in facts[part::2]:
                lines += [f"## {self._written(self._day())}", f"- {self._filled(fact.text, name)}"]
                lines += [f"- {self.random.choice(self.filler)}"] * self.random.randrange(2)
                self._ask("file", fact, name, path)
            self.memories[path] = "\n".join(lines) + "\n"

    def _chats(self, number: int, one: str, two: str) -> None:
        """Chat sessions of two people; both may say the same things on different days."""
        said = [(name, fact) for name in (one, two) for fact in self.facts["chat"]]
        self.random.shuffle(said)
        size, day = _FACTS_OF_CHAT.get(self.language, _FACTS_OF_CHAT["other"]), self._day()
        for at in range(0, len(said), size):
            day += timedelta(days=self.random.randrange(3, 12))
            path = f"/memories/{self.language}/chats/{number}/session-{at // size + 1:02}.md"
            lines = [f"# {self._written(day)}", ""]
            for name, fact in said[at : at + size]:
                lines += [f"{two if name == one else one}: {self.random.choice(self.filler)}"]
                lines += [self._filled(fact.text, name), f"{name}: {self.random.choice(self.filler)}"]
                self._ask("chat", fact, name, path)
            self.memories[path] = "\n".join(lines) + "\n"
            asked = _ABOUT_DATES[self.language].format(name=one, date=self._written(day))
            self.asked["date"].append(Question(self.language, "date", asked, frozenset({path})))

    def _code(self) -> None:
        for number, fact in enumerate(self.facts["code"]):
            path = f"/memories/{self.language}/notes/{number:02}.md"
            self.memories[path] = f"{self.random.choice(self.filler)}\n{self._filled(fact.text, self.names[number])}\n"
            for text in fact.questions:
                self.asked["code"].append(Question(self.language, "code", text, frozenset({path})))

    def questions(self) -> list[Question]:
        """The chosen questions, some with a typo."""
        counts = _QUESTIONS.get(self.language, _QUESTIONS["other"])
        chosen: list[Question] = []
        for count, found in zip(counts, self.asked.values(), strict=True):
            unique = list({each.text: each for each in found}.values())
            chosen += self.random.sample(unique, min(count, len(unique)))
        return [self._mistyped(each) if at % _TYPOS == 0 else each for at, each in enumerate(chosen)]

    def _mistyped(self, question: Question) -> Question:
        """Swap two letters of a long word."""
        words = [found for found in re.finditer(r"[^\W\d_]{6,}", question.text) if question.text.isascii()]
        if not words:
            return question
        found = self.random.choice(words)
        at = self.random.randrange(found.start() + 1, found.end() - 1)
        text = question.text
        swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
        return Question(question.language, "typo", swapped, question.needed)


def judged(language: str) -> tuple[dict[str, str], list[Question]]:
    """Texts of the memories by path, and the questions, of one language."""
    builder = _Builder(language)
    return builder.memories, builder.questions()
