"""Errors: their JSON objects, and the status and type of each code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import ConfigDict

from retentive.wire import base
from retentive.wire.history import ConflictObject
from retentive.wire.review import ObstacleObject

INVALID: Final = "invalid_request_error"
BY_CODE: Mapping[str, tuple[int, str]] = {
    **dict.fromkeys(("invalid_input", "invalid_path", "too_large", "sensitive", "no_match"), (400, INVALID)),
    **dict.fromkeys(("many_matches", "out_of_range", "root_protected", "across_mounts"), (400, INVALID)),
    **dict.fromkeys(("into_itself", "archived", "refused"), (400, INVALID)),
    **dict.fromkeys(("read_only", "permission_denied", "storage_read_only"), (403, "permission_error")),
    "not_found": (404, "not_found_error"),
    **dict.fromkeys(("already_exists", "not_a_directory", "path_taken"), (409, "memory_path_conflict_error")),
    "conflict": (409, "conflict_error"),
    **dict.fromkeys(("error", "damaged", "locked", "unknown_schema"), (500, "api_error")),
    **dict.fromkeys(("unavailable", "closed", "outcome_unknown"), (503, "overloaded_error")),
    "store_full": (507, "api_error"),
}
"""Maps each error code of `retentive.errors` to the HTTP status and the error type of the API."""


class ErrorDetails(base.Answer):
    """Stable code of an error."""

    error_code: str


class ErrorObject(base.Answer):
    """Error. The fields after `details` are absent unless the error has them."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)
    type: str
    message: str
    details: ErrorDetails
    conflicting_memory_id: str | None = None
    conflicting_path: base.ShownPath | None = None
    position: base.Count | None = None
    conflicts: list[ConflictObject | ObstacleObject] | None = None


class ErrorAnswer(base.Answer):
    """Answer with an error."""

    type: Literal["error"]
    error: ErrorObject
    request_id: str
