"""The story of `retentive demo`: an archive of returned lamps, the task, and what Claude says, played by a function.

The function is a script, not a model. It works out each answer from what is before it in one request, after clearing
and compaction, and from nothing else: what it does not see there any more, it must have in its memory.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retentive.testing.scripted_claude.script import Call, Turn

if TYPE_CHECKING:
    from retentive.testing.scripted_claude.prompt import Prompt, ToolUse

TICKETS = {1: 12, 2: 16, 3: 24, 4: 34, 5: 46, 6: 28, 7: 18}
"""How many tickets there are of each week; the three fullest are over 50,000 tokens, the least that is compacted."""
TICKET_CHARS = 2_000
LAMPS = ("Aurora", "Borealis", "Corona")
NOTES = "/memories/returns.md"
KILLED_AT = 6  # the week that the first session has read, and not noted, when its process is killed

SYSTEM = (
    "You help the support team of Brightside, a small shop for lamps. Read one week at a time, and after each week "
    "write down in your memory how far you are and what you have counted: your work may be interrupted."
)
TASK = (
    f"How often did each lamp come back in weeks 1 to {len(TICKETS)}? Name each with its number, as in {LAMPS[0]} 12."
)
SUMMARY = f"I was counting the lamps that came back, week by week. How far I am stands in my notes, {NOTES}."

_SAID = (
    "I bought it for the desk of my daughter, who does her homework there in the evening.",
    "The parcel looked well when it came, so I saw it only after unpacking.",
    "I have tried another bulb and another socket, as your page on problems says.",
    "A photo is attached; I can send more of them if that helps you.",
    "We are very content with the other lamp of yours, it stands in the hall.",
    "Please tell me whether I should send it back, and who pays for the parcel.",
    "I am at home on most days before noon, should somebody come to fetch it.",
    "It is a pity, for I like the warm light and the shape of the shade a lot.",
    "My order was confirmed on the same day, and the invoice is paid.",
    "I have read your conditions, but I am not sure which of them holds here.",
)
_RETURNED = re.compile(r"^Came back: (\w+)$", re.MULTILINE)
_PROGRESS = re.compile(r"Weeks done: (\d+) of (\d+)\..*\n[ \d\t]*So far: (.*)\.")  # as written, and as viewed
_COUNT = re.compile(r"(\w+) (\d+)")
_TOTAL = re.compile(r"in weeks 1 to (\d+)\?")


def archive(week: int) -> str:
    """The tickets of a week, the same each time; a line of each says which lamp came back."""
    chance = random.Random(week)  # noqa: S311 - what comes out must be the same each time, not a secret
    return "\n\n".join(_ticket(f"{week}{number:02}", chance) for number in range(1, TICKETS[week] + 1))


def counted(text: str) -> Counter[str]:
    """How often each lamp came back in the tickets of a text."""
    return Counter(_RETURNED.findall(text))


def named(counts: Counter[str]) -> str:
    """The counts as they stand in notes and in the answer: `Aurora 3, Borealis 0, Corona 7`."""
    return ", ".join(f"{lamp} {counts[lamp]}" for lamp in LAMPS)


def _ticket(number: str, chance: random.Random) -> str:
    head = f"Ticket {number}\nCame back: {chance.choice(LAMPS)}\n"
    body = ""
    while len(head) + len(body) < TICKET_CHARS:
        body += f"{chance.choice(_SAID)}\n"
    return head + body


@dataclass(frozen=True, slots=True)
class Notes:
    """How far the work is, as it stands in the memory."""

    done: int
    total: int
    counts: Counter[str]

    def __str__(self) -> str:
        then = f"Next: week {self.done + 1}." if self.done < self.total else "All are counted."
        return f"Weeks done: {self.done} of {self.total}. {then}\nSo far: {named(self.counts)}."

    def after(self, tickets: str) -> Notes:
        """The notes once the next week is counted too."""
        return Notes(self.done + 1, self.total, self.counts + counted(tickets))


def answer(prompt: Prompt) -> Turn:
    """What comes next: look into the memory, read the next week, note what was counted, or the answer."""
    if not prompt.calls:
        return _look(prompt)
    notes = _known(prompt)
    if notes is None:
        return _begin(prompt)
    last = prompt.calls[-1]
    if last.name == "read_week":
        return _note(notes, notes.after(_text(last)))
    if notes.done < notes.total:
        return Turn((_read(notes.done + 1),))
    return Turn((f"All {notes.total} weeks are counted. This often they came back: {named(notes.counts)}.",))


def _look(prompt: Prompt) -> Turn:
    """Nothing is before it: the conversation begins, or a summary stands in its place."""
    if prompt.summary is not None:
        return Turn(("I see only a summary now; my notes know how far I am.", _view(NOTES)))
    return Turn((_view("/memories"),))


def _begin(prompt: Prompt) -> Turn:
    """The memory was listed: there are notes from before, or the work starts here."""
    if NOTES in _text(prompt.calls[-1]):
        return Turn(("I was at this before; here are my notes.", _view(NOTES)))
    total = _TOTAL.search(prompt.opening)
    if total is None:
        raise ValueError("the task does not say how many weeks there are")
    notes = Notes(0, int(total[1]), Counter())
    return Turn((Call({"command": "create", "path": NOTES, "file_text": f"{notes}\n"}), _read(1)))


def _note(before: Notes, after: Notes) -> Turn:
    """Save what was just counted before anything else is read."""
    note = Call({"command": "str_replace", "path": NOTES, "old_str": str(before), "new_str": str(after)})
    more = (_read(after.done + 1),) if after.done < after.total else ()
    return Turn((note, *more))


def _known(prompt: Prompt) -> Notes | None:
    """The notes as the memory was told them, or told them, last."""
    for call in reversed([call for call in prompt.calls if call.name == "memory"]):
        told = str(call.input.get("new_str") or call.input.get("file_text") or _text(call))
        _text(call)  # what failed is not known
        if found := _PROGRESS.search(told):
            counts = Counter({lamp: int(count) for lamp, count in _COUNT.findall(found[3])})
            return Notes(int(found[1]), int(found[2]), counts)
    return None


def _text(call: ToolUse) -> str:
    """What a call came back with. Raises `ValueError` where that cannot be worked with."""
    if call.result is None or call.result.is_error or call.cleared:
        found = "nothing" if call.result is None else call.result.text
        raise ValueError(f"{call.name} {call.input.get('command', '')} came back with {found!r}")
    return call.result.text


def _view(path: str) -> Call:
    return Call({"command": "view", "path": path})


def _read(week: int) -> Call:
    return Call({"week": week}, name="read_week")
