"""Deterministic policy of `memory_value.py`: the next turn, computed only from the visible part of the prompt.

The policy has no state. It does not know a fact in a cleared tool result, before a compaction or in an earlier
conversation, unless it reads a document or its memory again. It always follows the memory protocol: it views its memory
at the start of each conversation, and records each fact as soon as it reads it.
"""

from __future__ import annotations

import re
from typing import Any, cast

from retentive.testing.scripted_claude import Call, Prompt

NOTES = "/memories/notes.md"
READ = "read_document"
ALL_READ = "done"
_TELL = re.compile(r"Remember: (The .+ is [0-9a-f]{8})\.")
_READ = re.compile(r"Read documents (\d+) to (\d+)\.")
_QUESTION = re.compile(r"What is (the .+?)\?")
_RANGE = re.compile(r"one of the documents 1 to (\d+)")
_FACT = re.compile(r"The \w+ code of \w+ \S+ is [0-9a-f]{8}")


def next_turn(prompt: Prompt) -> Call | str:
    """Choose the next tool call or answer."""
    seen = _Seen(prompt)
    if (look := seen.unread_memory()) is not None:
        return look
    if (fact := seen.unrecorded_fact()) is not None:
        return seen.record(fact)
    if _TELL.search(seen.message):
        return "noted"
    if found := _READ.search(seen.message):
        return seen.next_read(int(found[1]), int(found[2])) or ALL_READ
    question = _QUESTION.search(seen.message)
    assert question is not None, seen.message
    answer = re.search(re.escape(question[1]) + r" is ([0-9a-f]{8})", seen.text, re.IGNORECASE)
    if answer is not None:
        return answer[1]
    documents = _RANGE.search(seen.message)
    return (documents and seen.next_read(1, int(documents[1]))) or "unknown"


class _Seen:
    """Visible content of a prompt: the message of the user, the documents, and the notes."""

    def __init__(self, prompt: Prompt) -> None:
        blocks = [(message.role, block) for message in prompt.messages for block in message.blocks]
        texts = [n for n, (role, block) in enumerate(blocks) if role == "user" and block.get("type") == "text"]
        self.message = str(blocks[texts[-1]][1]["text"])
        self._has_memory = "memory" in prompt.tool_names
        self._memory = [call for call in prompt.calls if call.name == "memory"]
        # A document that was read before the newest message counts only while it is visible.
        newer = [block for _, block in blocks[texts[-1] :] if block.get("name") == READ]
        self._read = {int(cast("Any", block["input"])["number"]) for block in newer}
        reads = [call for call in prompt.calls if call.name == READ]
        self._documents = [call.result.text for call in reads if call.result is not None and not call.cleared]
        users = [str(blocks[n][1]["text"]) for n in texts]
        self.notes = "\n".join(
            [str(call.input.get("file_text") or call.input.get("insert_text") or "") for call in self._memory]
            + [call.result.text for call in self._memory if call.result is not None and not call.cleared]
        )
        self.text = "\n".join([*users, *self._documents, self.notes])

    def unread_memory(self) -> Call | None:
        """View of the memory directory and of the notes, unless their content is visible already."""
        if not self._has_memory:
            return None
        shown = {call.input.get("path"): call.result for call in self._memory if call.result and not call.cleared}
        root = shown.get("/memories")
        if root is None:
            return Call({"command": "view", "path": "/memories"})
        return Call({"command": "view", "path": NOTES}) if NOTES in root.text and NOTES not in shown else None

    def unrecorded_fact(self) -> str | None:
        """Visible fact that is not in the notes, with the number of its document."""
        if not self._has_memory:
            return None
        told = _TELL.search(self.message)
        if told and told[1] not in self.notes:
            return told[1]
        for document in self._documents:
            fact, title = _FACT.search(document), document.partition("\n")[0]
            if fact and fact[0] not in self.notes:
                return f"{title}: {fact[0]}"
        return None

    def record(self, fact: str) -> Call:
        """Add a line to the notes, or create them."""
        if NOTES in {call.input.get("path") for call in self._memory}:
            return Call({"command": "insert", "path": NOTES, "insert_line": 0, "insert_text": f"{fact}\n"})
        return Call({"command": "create", "path": NOTES, "file_text": f"{fact}\n"})

    def next_read(self, first: int, last: int) -> Call | None:
        """Read the next document that was not read since the message, and is neither visible nor in the notes."""
        for number in range(first, last + 1):
            known = f"Document {number}:" in self.notes or any(
                document.startswith(f"Document {number}\n") for document in self._documents
            )
            if number not in self._read and not known:
                return Call({"number": number}, name=READ)
        return None
