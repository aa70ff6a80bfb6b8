"""Memories, searches, and commands: tool calls, commands of applications, and batches."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from retentive.engine.citations import MAX_VERIFIED, Citation, Freshness
from retentive.engine.handlers import MAX_BATCH
from retentive.engine.visibility import Level
from retentive.search.recall import LEAST_TOKENS, Passage, Recall
from retentive.search.results import Hit, Results, Snippet
from retentive.values.paths import ROOT
from retentive.values.records import Memory, Operation, Version, Written
from retentive.values.replies import Reply
from retentive.wire import base


class MemoryCreation(base.Fields):
    """New memory."""

    path: base.FilePath = Field(description="Path, which begins with `/`")
    content: str = Field(description="Text of the memory")


class ContentHash(base.Fields):
    """Condition of a change."""

    type: Literal["content_sha256"]
    content_sha256: base.Sha256


class MemoryUpdate(base.Sourced):
    """Changes of a memory."""

    content: str | None = Field(None, description="New text")
    path: base.FilePath | None = Field(None, description="New path")
    precondition: ContentHash | None = Field(None, description="Hash that the content must have")


class MemoryObject(base.ObjectOf[Memory]):
    """Memory. `content` is null if the view is `basic`. `note` is there only if its path looks like a mistake."""

    id: str
    type: Literal["memory"] = "memory"
    memory_store_id: str
    memory_version_id: str
    path: base.ShownPath
    content: str | None
    content_sha256: base.Sha256
    content_size_bytes: base.Count
    created_at: base.UtcTime
    updated_at: base.UtcTime
    note: str | None = Field(None, exclude_if=lambda value: value is None)
    attributes: ClassVar = {
        "memory_version_id": "version_id",
        "content_sha256": "sha256",
        "content_size_bytes": "size_bytes",
    }


class PrefixObject(base.Answer):
    """Directory in a list of memories. Its path ends with `/`."""

    type: Literal["memory_prefix"] = "memory_prefix"
    path: base.ShownPath


class MemoryPage(base.AnswerPage[Annotated[MemoryObject | PrefixObject, Field(discriminator="type")]]):
    """Memories and directories in byte order of their paths."""


Marks = list[Annotated[list[base.Count], Field(min_length=2, max_length=2)]]
PathMarks = Annotated[
    Marks,
    BeforeValidator(lambda marks, info: _moved(marks, len(ROOT)) if info.mode == "json" else marks),
    PlainSerializer(lambda marks: _moved(marks, -len(ROOT)), return_type=Marks),
]
"""Marks in a path, which is shorter in the API."""


class SearchRequest(base.Fields):
    """Search. The query is in the body, because URLs appear in logs."""

    path_prefix: base.Under = "/"
    query: str = Field(min_length=1, max_length=4_000, description="Words, phrases and operators")
    mode: Literal["ranked", "all", "regex"] = Field(
        "ranked", description="`ranked`: any word counts; `all`: all words must occur; `regex`: the query is a pattern"
    )
    at: base.At = None
    paths: list[base.PathPattern] = Field(
        [], max_length=100, description="Patterns of paths, such as `/memories/*/notes.md`"
    )
    source: str | None = Field(
        None, description="Only memories with a contributor of a source that matches this pattern"
    )
    trust: Level | None = Field(None, description="Only memories at this level of trust")
    history: bool = Field(False, description="Search all versions, and find the first with each text")
    limit: int = Field(20, ge=1, le=100, description="Objects in one page")


class SnippetObject(base.ObjectOf[Snippet]):
    """Matching line."""

    line: base.Count
    text: str
    marks: Marks
    headings: list[str]
    attributes: ClassVar = {"marks": "spans"}


class HitObject(base.ObjectOf[Hit]):
    """Found memory, version or proposal. `memory` is null if it is not the present state of a memory."""

    type: Literal["search_result"] = "search_result"
    memory_id: str
    memory_version_id: str
    path: base.ShownPath
    path_marks: PathMarks
    memory: MemoryObject | None
    score: float
    updated_at: base.UtcTime
    updated_by: base.ActorObject
    trust: str
    freshness: str
    matching_lines: base.Count
    snippets: list[SnippetObject]

    attributes: ClassVar = {"memory_version_id": "version_id", "path_marks": "path_spans", "matching_lines": "lines"}

    def value(self, **_: object) -> Hit:
        """Return the search result."""
        return super().value(actor=None if self.updated_by is None else str(self.updated_by))


class SearchAnswer(base.ObjectOf[Results]):
    """Search results, best first."""

    data: list[HitObject]
    next_page: None = None
    total: base.Count
    unknown_words: list[str]
    damaged_paths: list[base.ShownPath]
    relaxed: bool

    attributes: ClassVar = {"data": "hits", "unknown_words": "unknown", "damaged_paths": "damaged"}


class RecallRequest(base.Fields):
    """Question, and the budget of the answer."""

    question: str = Field(min_length=1, max_length=100_000)
    budget_tokens: int = Field(400, ge=LEAST_TOKENS, le=100_000, description="Most tokens of the block, as estimated")
    path_prefix: base.Under = "/"


class PassageObject(base.ObjectOf[Passage]):
    """Line of a memory."""

    memory_id: str
    memory_version_id: str
    path: base.ShownPath
    line: base.Count
    text: str
    headings: list[str]
    trust: str
    freshness: str
    level: int

    attributes: ClassVar = {"memory_version_id": "version_id"}


class RecallAnswer(base.ObjectOf[Recall]):
    """The best lines for a question, and the block for a prompt."""

    type: Literal["memory_recall"] = "memory_recall"
    passages: list[PassageObject]
    text: str
    tokens: base.Count


class CitationObject(base.ObjectOf[Citation]):
    """Citation in a memory, and its state."""

    type: Literal["citation"] = "citation"
    path: base.ShownPath
    memory_id: str
    line: base.Count
    source: str
    state: Freshness
    sha256: str
    commit: str
    verified_at: base.UtcTime | None
    moved_to: str


class CheckFields(base.Fields):
    """Citation, and what a client found in the cited file."""

    memory_id: str
    source: str
    state: Freshness
    sha256: str = Field("", pattern="^[0-9a-f]{0,64}$")
    commit: str = Field("", pattern="^[0-9a-f]{0,64}$")


class Verification(base.Fields):
    """Citations to verify."""

    citations: list[CheckFields] = Field(max_length=MAX_VERIFIED)


def _moved(marks: Marks, by: int) -> Marks:
    return [[start + by, end + by] for start, end in marks if start + by >= 0]


_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "integer"}
_TEXTS = ("path", "file_text", "old_str", "new_str", "insert_text", "old_path", "new_path", "if_version")


def _command(*names: str) -> WithJsonSchema:
    """Return the schema of a command. The parser of commands checks it, because models read its errors."""
    fields = dict.fromkeys(_TEXTS, _TEXT)
    ranges = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
    fields |= {"command": {"enum": [*names]}, "insert_line": _NUMBER, "view_range": ranges}
    return WithJsonSchema({"type": "object", "properties": fields, "required": ["command"]})


_CHANGES = "create", "str_replace", "insert", "delete", "rename"
_OWN = "write", "append", "clear"
ToolInput = Annotated[Any, _command("view", *_CHANGES)]
AnyCommand = Annotated[Any, _command("view", *_CHANGES, *_OWN)]
BatchCommand = Annotated[dict[str, Any], _command(*_CHANGES, *_OWN[:2])]


class ToolUseBlock(base.Fields):
    """A tool_use block."""

    type: Literal["tool_use"] = Field(description="Type of the block")
    id: str = Field(min_length=1, description="Id of the block. The same id again gets the same result for 24 hours")
    name: Annotated[Any, WithJsonSchema(_TEXT)] = Field(None, description="Name of the tool")
    input: ToolInput = Field(None, description="The command")
    caller: Annotated[Any, WithJsonSchema({"type": "object"})] = Field(None, description="Ignored")
    cache_control: Annotated[Any, WithJsonSchema({"type": "object"})] = Field(None, description="Ignored")


class ToolResult(base.Answer):
    """A tool_result block."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str
    is_error: Annotated[Literal[True] | None, WithJsonSchema({"const": True})] = Field(
        None, exclude_if=lambda value: value is None
    )


class CommandRequest(base.Sourced):
    """Command of the memory tool, or `write`, `append` or `clear`."""

    command: AnyCommand = Field(description="Input of the tool. `write` and `append` have the fields of `create`")
    id: str | None = Field(None, min_length=1, description="The same id again gets the same result for 24 hours")
    if_version: str | None = Field(
        None, max_length=200, description="Id that the newest version must have; empty if there must be no memory"
    )
    mount: str = Field(
        ROOT,
        max_length=2_000,
        description="Mount point of the store in a tree of several; paths of command and reply are those of the tree",
    )
    read_only: bool = Field(False, description="Refuse every change, as a store that is mounted read-only does")


class CommandChange(base.ObjectOf[Version]):
    """Version that a command recorded."""

    path: base.ShownPath
    memory_id: str
    memory_version_id: str
    operation: Operation
    attributes: ClassVar = {"memory_version_id": "id"}


class WrittenObject(base.ObjectOf[Written]):
    """What a command wrote."""

    path: base.ShownPath
    memory_id: str | None = None
    memory_version_id: str | None = None
    change_count: base.Count = 0
    notes: list[str] = Field(default_factory=list)
    proposed: bool = False
    attributes: ClassVar = {"memory_version_id": "version_id", "change_count": "memories", "proposed": "is_proposed"}

    @classmethod
    def of(cls, given: Written, **more: object) -> Self:
        """Return the object of what was written. Without a version, it has no ids."""
        ids = {"memory_id": given.memory_id or None, "memory_version_id": given.version_id or None}
        return super().of(given, **ids, **more)

    def value(self, **_: object) -> Written:
        """Return what was written."""
        ids = {"memory_id": self.memory_id or "", "version_id": self.memory_version_id or ""}
        return super().value(path=self.path or ROOT, memory=None, **ids)


class CommandAnswer(WrittenObject):
    """Reply of a command, and what it wrote. At most 1,000 `changes` are listed."""

    type: Literal["command_result"] = "command_result"
    content: str
    is_error: bool
    error_code: str | None
    path: base.ShownPath | None  # type: ignore[assignment]  # none of a malformed command
    changes: list[CommandChange] = Field(default_factory=list)
    conflicting_memory_id: str | None = None
    conflicting_path: base.ShownPath | None = None

    def reply(self) -> Reply:
        """Return the reply."""
        return Reply(self.content, self.is_error, self.error_code)


class BatchRequest(base.Sourced):
    """Commands that are run as one change."""

    commands: list[BatchCommand] = Field(
        min_length=1,
        max_length=MAX_BATCH,
        description="Inputs of the tool, without `view`; each may have `if_version`, the id of the newest version",
    )


class BatchAnswer(base.Answer):
    """What each command of a batch wrote."""

    type: Literal["batch_result"] = "batch_result"
    results: list[WrittenObject]
