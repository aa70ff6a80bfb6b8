"""The customer-service story of `commonplace demo`: what the user says, and the script Claude's part is played from.

The checks are exact, so that the demo fails where a reply is not what the documentation of the tool promises.
"""

from __future__ import annotations

from dataclasses import dataclass

from commonplace.testing.scripted_script import Call, Check, Script, Turn

SYSTEM = (
    "You help the support team of Brightside, a small shop for lamps. What you learn about how the team works "
    "belongs in your memory, for every later conversation."
)

GUIDELINES = "/memories/customer_service_guidelines.md"
REFUNDS = "/memories/refund_policies.md"

_GUIDELINES_TEXT = """\
# Customer service guidelines

- Address customers by their first name.
- Say sorry once, then solve the problem.
- Sign with "Your Brightside team".
"""
_REFUNDS_TEXT = """\
# Refund policies

- Full refund within 30 days of delivery, with proof of purchase.
- Damaged goods: replacement or refund, the customer chooses.
- A photo is enough, nothing needs to be sent back.
"""


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation, in a process of its own: what the user says, and the script for what Claude does."""

    name: str
    messages: tuple[str, ...]
    script: Script


_LEARN = (
    "Please learn how our support team works, for every ticket to come.\n\n"
    "Writing: address customers by their first name, say sorry once and then solve the problem, and sign with "
    '"Your Brightside team".\n\n'
    "Refunds: full refund within 30 days of delivery, with proof of purchase. For damaged goods the customer chooses "
    "between replacement and refund; a photo is enough, nothing needs to be sent back."
)

_TICKET = (
    "Help me respond to this customer service ticket.\n\n"
    '"My desk lamp came with a cracked shade. I was away and saw it only today, 33 days after delivery. '
    'I would like my money back. Order 20417, photo attached. Maria Keller"'
)

_CORRECT = (
    "Good. Two things have changed, please correct what you remember: the refund period is 45 days now, and damaged "
    "goods get an answer within one working day."
)

_LETTER = (
    "Here is a draft:\n\n"
    "Dear Maria,\n\n"
    "I am sorry that your lamp arrived with a cracked shade. Since it came damaged, the choice is yours: a new lamp, "
    "or your money back. Your photo is all we need, please keep the lamp. As you asked for your money back, the "
    "refund is on its way.\n\n"
    "Your Brightside team"
)

_LISTING = (
    "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
)
_ROOT = {"command": "view", "path": "/memories"}


def _size(*texts: str) -> str:
    return f"{sum(len(text.encode()) for text in texts)}B"


def _numbered(path: str, text: str) -> str:
    rows = (f"{n:6}\t{line}" for n, line in enumerate(text.splitlines(), 1))
    return "\n".join([f"Here's the content of {path} with line numbers:", *rows])


def _create(path: str, text: str) -> Call:
    command = {"command": "create", "path": path, "file_text": text}
    return Call(command, Check(f"File created successfully at: {path}"))


def _view(path: str, text: str) -> Call:
    return Call({"command": "view", "path": path}, Check(_numbered(path, text)))


_WRONG = "within thirty days"
_NOT_FOUND = f"No replacement was performed, old_str `{_WRONG}` did not appear verbatim in {REFUNDS}."
_DAMAGED = "- Damaged goods: answer within one working day."
_CORRECTED = _REFUNDS_TEXT.replace("30 days", "45 days")

FIRST = Session(
    "first",
    (_LEARN,),
    Script(
        (
            Turn(("I'll look into my memory first.", Call(_ROOT, Check(f"{_LISTING}0B\t/memories")))),
            Turn(
                (
                    "It is empty. I'll write this down in two files, one a subject.",
                    _create(GUIDELINES, _GUIDELINES_TEXT),
                    _create(REFUNDS, _REFUNDS_TEXT),
                )
            ),
            Turn(("Saved: how to write to customers, and the refund policies. I'll use them from now on.",)),
        ),
        "first session",
        when=_LEARN,
    ),
)

SECOND = Session(
    "second",
    (_TICKET, _CORRECT),
    Script(
        (
            Turn(
                (
                    "I'll check my memory for how the team handles this.",
                    Call(
                        _ROOT,
                        Check(
                            f"{_LISTING}{_size(_GUIDELINES_TEXT, _REFUNDS_TEXT)}\t/memories\n"
                            f"{_size(_GUIDELINES_TEXT)}\t{GUIDELINES}\n{_size(_REFUNDS_TEXT)}\t{REFUNDS}"
                        ),
                    ),
                )
            ),
            Turn((_view(GUIDELINES, _GUIDELINES_TEXT), _view(REFUNDS, _REFUNDS_TEXT))),
            Turn((_LETTER,)),
            Turn(
                (
                    "I'll correct the refund policies.",
                    Call(
                        {"command": "str_replace", "path": REFUNDS, "old_str": _WRONG, "new_str": "within 45 days"},
                        Check(_NOT_FOUND, is_error=True),
                    ),
                )
            ),
            Turn(
                (
                    "I remembered the words wrongly; the error says so. Again, with the words of the file.",
                    Call(
                        {"command": "str_replace", "path": REFUNDS, "old_str": "30 days", "new_str": "45 days"},
                        Check(contains=("The memory file has been edited.", "     3\t- Full refund within 45 days")),
                    ),
                    Call(
                        {"command": "insert", "path": REFUNDS, "insert_line": 5, "insert_text": _DAMAGED},
                        Check(f"The file {REFUNDS} has been edited."),
                    ),
                )
            ),
            Turn((_view(REFUNDS, f"{_CORRECTED}{_DAMAGED}\n"),)),
            Turn(("Corrected: 45 days, and an answer within one working day for damaged goods.",)),
        ),
        "second session",
        when=_TICKET,
    ),
)

SESSIONS = {session.name: session for session in (FIRST, SECOND)}
