"""Errors: the status and type of each error code, and the body of an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from retentive.history.plan import RestoreOutcome
from retentive.review.proposals import DecisionOutcome, Obstacle
from retentive.wire.base import Answer, Count, ObjectOf, ShownPath
from retentive.wire.history import ConflictObject

INVALID: Final = "invalid_request_error"
BY_CODE: Mapping[str, tuple[int, str]] = {
    "invalid_input": (400, INVALID),
    "invalid_path": (400, INVALID),
    "too_large": (400, INVALID),
    "sensitive": (400, INVALID),
    "no_match": (400, INVALID),
    "many_matches": (400, INVALID),
    "out_of_range": (400, INVALID),
    "root_protected": (400, INVALID),
    "across_mounts": (400, INVALID),
    "into_itself": (400, INVALID),
    "archived": (400, INVALID),
    "read_only": (403, "permission_error"),
    "permission_denied": (403, "permission_error"),
    "storage_read_only": (403, "permission_error"),
    "not_found": (404, "not_found_error"),
    "already_exists": (409, "memory_path_conflict_error"),
    "not_a_directory": (409, "memory_path_conflict_error"),
    "path_taken": (409, "memory_path_conflict_error"),
    "conflict": (409, "conflict_error"),
    "error": (500, "api_error"),
    "refused": (400, INVALID),
    "damaged": (500, "api_error"),
    "locked": (500, "api_error"),
    "unknown_schema": (500, "api_error"),
    "store_full": (507, "api_error"),
    "unavailable": (503, "overloaded_error"),
    "closed": (503, "overloaded_error"),
    "outcome_unknown": (503, "overloaded_error"),
}
"""Maps each error code of `retentive.errors` to the HTTP status and the error type of the API."""


class ErrorDetails(Answer):
    """Stable code of an error."""

    error_code: str


class ObstacleObject(ObjectOf[Obstacle]):
    """Reason why a proposal cannot be accepted or refused."""

    path: ShownPath | None
    proposal_id: str
    reason: str

    attributes: ClassVar = {"reason": "text"}


class ErrorObject(Answer):
    """Error. The fields after `details` are absent unless the error has them."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)
    type: str
    message: str
    details: ErrorDetails
    conflicting_memory_id: str | None = None
    conflicting_path: ShownPath | None = None
    position: Count | None = None
    conflicts: list[ConflictObject | ObstacleObject] | None = None


class ErrorAnswer(Answer):
    """Answer with an error."""

    type: Literal["error"]
    error: ErrorObject
    request_id: str

    def restore(self, *, dry_run: bool) -> RestoreOutcome:
        """Return the outcome of an undo or restore that was refused because of conflicts."""
        found = self.error.conflicts or ()
        conflicts = tuple(each.value() for each in found if isinstance(each, ConflictObject))
        return RestoreOutcome(conflicts=conflicts, dry_run=dry_run)

    def decision(self) -> DecisionOutcome:
        """Return the outcome of a decision that was refused because of obstacles."""
        found = self.error.conflicts or ()
        return DecisionOutcome(obstacles=tuple(e.value() for e in found if isinstance(e, ObstacleObject)))
