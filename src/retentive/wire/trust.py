"""Trust in memories."""

from __future__ import annotations

from typing import Literal, Self, cast

from pydantic import Field

from retentive.review.trust import DoubtedMemory
from retentive.wire.base import Answer, AnyPath, Fields, api_path, tool_path
from retentive.wire.versions import FlagObject

DoubtedLevel = Literal["unconfirmed", "quarantined"]


class Confirmation(Fields):
    """Memories to trust."""

    path: AnyPath = Field(description="Path of a memory or a directory; `/` is the whole store")


class TrustPattern(Fields):
    """Contributors to distrust, or to trust again."""

    pattern: str = Field(
        min_length=1, max_length=300, description="Pattern of contributors, such as session:s1 or source:web:*"
    )


class DoubtedObject(Answer):
    """Memory that is not trusted."""

    type: Literal["doubted_memory"] = "doubted_memory"
    memory_id: str
    path: str
    level: DoubtedLevel
    contributors: list[str]
    flags: list[FlagObject]

    @classmethod
    def of(cls, given: DoubtedMemory) -> Self:
        """Return the object of a memory."""
        return cls(
            memory_id=given.memory_id,
            path=api_path(given.path),
            level=cast("DoubtedLevel", given.level),
            contributors=list(given.contributors),
            flags=[FlagObject(line=line, kind=kind) for line, kind in given.flags],
        )

    def doubted(self) -> DoubtedMemory:
        """Return the memory."""
        flags = tuple((each.line, each.kind) for each in self.flags)
        return DoubtedMemory(tool_path(self.path), self.memory_id, self.level, tuple(self.contributors), flags)


class ConfirmationResult(Answer):
    """Memories that are trusted now."""

    type: Literal["trust_confirmation"] = "trust_confirmation"
    paths: list[str]


class QuarantineResult(Answer):
    """Answer to a quarantine or its end."""

    type: Literal["quarantine_change"] = "quarantine_change"
    pattern: str
    changed: bool
