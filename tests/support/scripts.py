"""Replies of the scripted Claude to the examples of the documentation."""

from __future__ import annotations

from retentive.testing.scripted_claude import Call, Check, Script, Turn

_LOOK = Call({"command": "view", "path": "/memories"}, Check(contains=("/memories",)))
_NOTES = "/memories/customers/ada.md"

SCRIPTS = (
    Script(
        (
            Turn(("I look at what I know.", _LOOK)),
            Turn(
                (
                    Call(
                        {
                            "command": "create",
                            "path": _NOTES,
                            "file_text": "# Ada\n- prefers e-mail\n- pays in euros\n",
                        },
                        Check(f"File created successfully at: {_NOTES}"),
                    ),
                )
            ),
            Turn(("I will remember: Ada prefers e-mail and pays in euros.",)),
        ),
        "first session",
        when="Please remember: Ada prefers e-mail",
    ),
    Script(
        (
            Turn((_LOOK,)),
            Turn((Call({"command": "view", "path": _NOTES}, Check(contains=("     2\t- prefers e-mail",))),)),
            Turn(
                (
                    Call(
                        {"command": "str_replace", "path": _NOTES, "old_str": "e-mail", "new_str": "the phone"},
                        Check(contains=("The memory file has been edited.",)),
                    ),
                )
            ),
            Turn(("Ada used to prefer e-mail. I have corrected my notes: she prefers calls.",)),
        ),
        "second session",
        when="Ada wants calls now",
    ),
    Script(
        (
            Turn((Call({"command": "view", "path": "/memories"}, Check()),)),
            Turn(("You are asking about Ada.",)),
        ),
        "own loop",
        when="Who am I asking about?",
    ),
    Script(
        (
            Turn((Call({"command": "view", "path": "/memories"}, Check()),)),
            Turn(
                (
                    Call(
                        {
                            "command": "str_replace",
                            "path": "/memories/ann.md",
                            "old_str": "likes tea.",
                            "new_str": "likes tea and milk.",
                        },
                        Check(),
                    ),
                    Call({"command": "delete", "path": "/memories/ann2.md"}, Check()),
                )
            ),
            Turn(("The two notes about Ann are one now.",)),
        ),
        "tidying",
        when="Tidy this memory store.",
    ),
)
