"""The story of `retentive demo`: an archive of returned lamps, the task, and the script of Claude.

The script is a function, not a model. Like a model, it sees only the messages of one request, after clearing and
compaction. It must get all other information from the memory.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.prompt import Prompt, ToolUse
    from retentive.testing.scripted_claude.script import Call, Turn

TICKETS = {1: 12, 2: 16, 3: 24, 4: 34, 5: 46, 6: 28, 7: 18}
"""Number of tickets of each week.

The three largest weeks together have over 50,000 tokens, the minimum at which the API compacts a conversation.
"""
TICKET_CHARS = 2_000
LAMPS = ("Aurora", "Borealis", "Corona")
NOTES = "/memories/returns.md"
KILLED_AT = 6  # the first session is killed after it has read this week and before it has saved the counts

SYSTEM = (
    "You help the support team of Brightside, a small shop for lamps. Read one week at a time, and after each week "
    "save your progress and your counts in your memory: your work may be interrupted."
)
TASK = f"How often was each lamp returned in weeks 1 to {len(TICKETS)}? Give each name with its count: {LAMPS[0]} 12."
SUMMARY = f"I am counting returned lamps, week by week. My progress is in my notes, {NOTES}."

_SENTENCES = (
    "I bought it for my daughter's desk, where she does her homework in the evening.",
    "The parcel looked fine when it arrived, so I only noticed after unpacking it.",
    "I tried another bulb and another socket, as your help page suggests.",
    "I have attached a photo, and I can send more if that helps.",
    "We are very happy with our other lamp from you, which we use in the hall.",
    "Please let me know if I should send it back, and who pays for the shipping.",
    "I am home before noon on most days, if somebody wants to pick it up.",
    "It is a pity, because I really like the warm light and the shape of the shade.",
    "My order was confirmed the same day, and I have paid the invoice.",
    "I have read your terms, but I am not sure which of them applies here.",
)
_RETURNED = re.compile(r"^Returned: (\w+)$", re.MULTILINE)
_PROGRESS = re.compile(r"Weeks done: (\d+) of (\d+)\..*\n[ \d\t]*So far: (.*)\.")  # as written or as viewed
_COUNT = re.compile(r"(\w+) (\d+)")
_TOTAL = re.compile(r"in weeks 1 to (\d+)\?")


def archive(week: int) -> str:
    """Return the tickets of a week. Every call returns the same text. A line of each ticket names the returned lamp."""
    chance = random.Random(week)  # noqa: S311 - the archive must be reproducible, not secret
    return "\n\n".join(_ticket(f"{week}{number:02}", chance) for number in range(1, TICKETS[week] + 1))


def counted(text: str) -> Counter[str]:
    """Count how often each lamp was returned. `text` contains the tickets."""
    return Counter(_RETURNED.findall(text))


def named(counts: Counter[str]) -> str:
    """Return the counts as text, in the format of the memory and the answer: `Aurora 3, Borealis 0, Corona 7`."""
    return ", ".join(f"{lamp} {counts[lamp]}" for lamp in LAMPS)


def _ticket(number: str, chance: random.Random) -> str:
    head = f"Ticket {number}\nReturned: {chance.choice(LAMPS)}\n"
    body = ""
    while len(head) + len(body) < TICKET_CHARS:
        body += f"{chance.choice(_SENTENCES)}\n"
    return head + body


@dataclass(frozen=True, slots=True)
class Notes:
    """Progress of the work. `str` returns the text that is stored in the memory."""

    done: int
    total: int
    counts: Counter[str]

    def __str__(self) -> str:
        then = f"Next: week {self.done + 1}." if self.done < self.total else "All weeks are counted."
        return f"Weeks done: {self.done} of {self.total}. {then}\nSo far: {named(self.counts)}."

    def after(self, tickets: str) -> Notes:
        """Return the notes after one more week. They include the returns in `tickets`, the tickets of that week."""
        return Notes(self.done + 1, self.total, self.counts + counted(tickets))


def answer(prompt: Prompt) -> Turn:
    """Return the next turn of Claude: view the memory, read a week, save its counts, or give the final answer."""
    if not prompt.calls:
        return _open(prompt)
    notes = _known(prompt)
    if notes is None:
        return _begin(prompt)
    last = prompt.calls[-1]
    if last.name == "read_week":
        return _save(notes, notes.after(_text(last)))
    if notes.done < notes.total:
        return _turn((_read(notes.done + 1),))
    return _turn((f"I have counted all {notes.total} weeks. Returns: {named(notes.counts)}.",))


def _open(prompt: Prompt) -> Turn:
    """Return the first turn of a conversation, or the first turn after a compaction."""
    if prompt.summary is not None:
        return _turn(("I only see a summary now. My progress is in my notes.", _view(NOTES)))
    return _turn((_view("/memories"),))


def _begin(prompt: Prompt) -> Turn:
    """Return the turn after the memory was listed: read the notes of earlier work, or start the work."""
    if NOTES in _text(prompt.calls[-1]):
        return _turn(("I have worked on this before; here are my notes.", _view(NOTES)))
    total = _TOTAL.search(prompt.opening)
    if total is None:
        raise ValueError("the task does not give the number of weeks")
    notes = Notes(0, int(total[1]), Counter())
    return _turn((_call({"command": "create", "path": NOTES, "file_text": f"{notes}\n"}), _read(1)))


def _save(before: Notes, after: Notes) -> Turn:
    save = _call({"command": "str_replace", "path": NOTES, "old_str": str(before), "new_str": str(after)})
    more = (_read(after.done + 1),) if after.done < after.total else ()
    return _turn((save, *more))


def _known(prompt: Prompt) -> Notes | None:
    """Return the progress that Claude last wrote to the memory or read from it. Returns None if there is none yet."""
    for call in reversed([call for call in prompt.calls if call.name == "memory"]):
        text = str(call.input.get("new_str") or call.input.get("file_text") or _text(call))
        _text(call)  # raises if the call failed
        if found := _PROGRESS.search(text):
            counts = Counter({lamp: int(count) for lamp, count in _COUNT.findall(found[3])})
            return Notes(int(found[1]), int(found[2]), counts)
    return None


def _text(call: ToolUse) -> str:
    """Return the text of the result of a call. Raises `ValueError` if the result is an error or was cleared."""
    if call.result is None or call.result.is_error or call.cleared:
        found = "nothing" if call.result is None else call.result.text
        raise ValueError(f"{call.name} {call.input.get('command', '')} returned {found!r}")
    return call.result.text


def _turn(contents: tuple[Call | str, ...]) -> Turn:
    from retentive.testing.scripted_claude.script import Turn  # noqa: PLC0415 - needs extras, and --help does not

    return Turn(contents)


def _call(given: dict[str, object], name: str = "memory") -> Call:
    from retentive.testing.scripted_claude.script import Call  # noqa: PLC0415 - as above

    return Call(given, name=name)


def _view(path: str) -> Call:
    return _call({"command": "view", "path": path})


def _read(week: int) -> Call:
    return _call({"week": week}, name="read_week")
