"""Questions about long chats: sessions with dates and speakers, and the sessions that answer each question.

Written as a check on the judged questions, before the ranking was looked at, in other words than the answers. Each
session is one memory, and all conversations are in one store. No parameter is fitted to these questions.
"""

from __future__ import annotations

import re
from pathlib import Path

from search.judged import Question

_FOLDER = Path(__file__).parent


def chats() -> tuple[dict[str, str], list[Question]]:
    """Texts of the sessions by path, and the questions."""
    _, *parts = re.split(r"(?m)^\[(\S+ \d+) \| (.+)\]\n", (_FOLDER / "chats.txt").read_text(encoding="utf-8"))
    names = list(dict.fromkeys(each.split()[0] for each in parts[::3]))
    paths = {
        each: f"/memories/chats/{names.index(each.split()[0])}/session-{int(each.split()[1]):02}.md"
        for each in parts[::3]
    }
    texts = {paths[each]: f"# {when}\n\n{said}" for each, when, said in zip(*[iter(parts)] * 3, strict=True)}
    asked = (_FOLDER / "chats.questions.txt").read_text(encoding="utf-8").splitlines()
    pairs = [each.split(" => ") for each in asked]
    return texts, [
        Question("chats", "chat", text, frozenset(paths[each] for each in needed.split("; "))) for text, needed in pairs
    ]
