"""Dreams: runs of Claude on the server that tidy a memory store, in the shapes of the hosted API."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from retentive.errors import InvalidInput
from retentive.wire import base

DreamStatus: TypeAlias = Literal["pending", "running", "completed", "failed", "canceled"]


class StoreInput(base.Fields):
    """Memory store that a dream reads, or that has its result."""

    type: Literal["memory_store"]
    memory_store_id: Annotated[str, Field(min_length=1, max_length=255)]


def _sorted(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise InvalidInput("must have no duplicates")
    return sorted(names)


class SessionsInput(base.Fields):
    """Sessions that a dream reads: names of actors `session:NAME`, or of sessions that changes name."""

    type: Literal["sessions"]
    session_ids: Annotated[list[base.Name], Field(min_length=1, max_length=100), base.rule(_sorted, keeps=False)]


DreamInput: TypeAlias = Annotated[StoreInput | SessionsInput, Field(discriminator="type")]


class DreamModel(base.Fields):
    """Model that runs a dream."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    speed: Literal["standard"] | None = "standard"


class CreateNew(base.Fields):
    """The result goes to a new memory store, which begins as a copy."""

    type: Literal["create_new"]


class UpdateExisting(base.Fields):
    """The result becomes proposals to the memory store that the dream reads."""

    type: Literal["update_existing"]
    memory_store_id: Annotated[str, Field(min_length=1, max_length=255)]


OutputBehavior: TypeAlias = Annotated[CreateNew | UpdateExisting, Field(discriminator="type")]


def _inputs(inputs: list[StoreInput | SessionsInput]) -> None:
    kinds = sorted(each.type for each in inputs)
    if kinds not in (["memory_store"], ["memory_store", "sessions"]):
        raise InvalidInput("must have exactly one entry `memory_store`, and at most one entry `sessions`")


class DreamCreation(base.Fields):
    """New dream. The last two fields are not those of the hosted API."""

    inputs: Annotated[list[DreamInput], Field(description="What the dream reads"), base.rule(_inputs)]
    model: Annotated[str, Field(min_length=1, max_length=256)] | DreamModel = Field(description="Model that runs it")
    instructions: str | None = Field(None, min_length=1, max_length=4_096, description="What to pay attention to")
    output_behavior: OutputBehavior = Field(CreateNew(type="create_new"), description="Where the result goes")
    budget_tokens: int = Field(500_000, ge=1, le=100_000_000, description="Most tokens of all requests together")
    max_deletions: int = Field(20, ge=0, le=100_000, description="Most memories that the dream may delete or empty")


class DreamError(base.Answer):
    """Why a dream failed."""

    type: str
    message: str


class DreamUsage(base.ObjectOf[Any]):
    """Tokens that a dream has used so far."""

    input_tokens: base.Count = 0
    output_tokens: base.Count = 0
    cache_creation_input_tokens: base.Count = 0
    cache_read_input_tokens: base.Count = 0

    attributes: ClassVar = {
        "cache_creation_input_tokens": "cache_creation_tokens",
        "cache_read_input_tokens": "cache_read_tokens",
    }


class DreamObject(base.Answer):
    """Dream. `session_id` is the actor `session:...` of its changes."""

    id: str
    type: Literal["dream"] = "dream"
    status: DreamStatus
    inputs: list[DreamInput]
    outputs: list[StoreInput] = Field(default_factory=list)
    model: DreamModel
    instructions: str | None
    output_behavior: OutputBehavior
    session_id: str | None = None
    usage: DreamUsage = DreamUsage()
    error: DreamError | None = None
    created_at: base.UtcTime
    ended_at: base.UtcTime | None = None
    archived_at: base.UtcTime | None = None


Statuses = Annotated[
    list[DreamStatus] | None, Field(alias="statuses[]", description="Only dreams with one of these statuses")
]
After = Annotated[base.Time | None, Field(alias="created_at[gt]", description="Only dreams created after this time")]
Before = Annotated[base.Time | None, Field(alias="created_at[lt]", description="Only dreams created before this time")]
