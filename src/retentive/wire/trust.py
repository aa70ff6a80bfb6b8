"""Trust in memories."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from retentive.review.trust import DoubtedMemory
from retentive.wire.base import Answer, AnyPath, Fields, ObjectOf, ShownPath
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


class DoubtedObject(ObjectOf[DoubtedMemory]):
    """Memory that is not trusted."""

    type: Literal["doubted_memory"] = "doubted_memory"
    memory_id: str
    path: ShownPath
    level: DoubtedLevel
    contributors: list[str]
    flags: list[FlagObject]

    @classmethod
    def of(cls, given: DoubtedMemory, **_: object) -> Self:
        """Return the object of a memory."""
        return super().of(given, flags=FlagObject.each_of(given.flags))

    def value(self, **_: object) -> DoubtedMemory:
        """Return the memory."""
        return super().value(flags=tuple((each.line, each.kind) for each in self.flags))


class ConfirmationResult(Answer):
    """Memories that are trusted now."""

    type: Literal["trust_confirmation"] = "trust_confirmation"
    paths: list[ShownPath]


class QuarantineResult(Answer):
    """Answer to a quarantine or its end."""

    type: Literal["quarantine_change"] = "quarantine_change"
    pattern: str
    changed: bool
