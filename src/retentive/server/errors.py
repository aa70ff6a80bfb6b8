"""Errors of the API: status, type and code of each, and the mapping from errors of the library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retentive.errors import RetentiveError
from retentive.values.paths import ROOT

INVALID: Final = "invalid_request_error"
RETRY_AFTER_S = 1
"""Value of the header `retry-after`. Both SDKs sleep for that time."""
NEVER_RETRIED = frozenset({409, 500, 507})
"""Statuses for which a retry would get the same answer. Both SDKs retry them unless a header forbids it."""

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


class HttpError(Exception):
    """Error that becomes the response to a request. `fields` are added to the error object in the body."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        code: str,
        *,
        fields: Mapping[str, object] | None = None,
        retry_after_s: int = RETRY_AFTER_S,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.code = code
        self.fields = dict(fields or {})
        self.retry_after_s = retry_after_s

    def body(self, request_id: str) -> dict[str, object]:
        """Return the JSON object in the body of the response."""
        error = {"type": self.kind, "message": self.message, "details": {"error_code": self.code}, **self.fields}
        return {"type": "error", "error": error, "request_id": request_id}

    def headers(self) -> dict[str, str]:
        """Return the headers that tell clients whether and when to retry."""
        if self.status in {429, 503}:
            return {"retry-after": str(self.retry_after_s)}
        return {"x-should-retry": "false"} if self.status in NEVER_RETRIED else {}


def invalid(message: str, code: str = "invalid_input") -> HttpError:
    """Return the error for a malformed request."""
    return HttpError(400, INVALID, message, code)


def unauthorized() -> HttpError:
    """Return the error for a missing or invalid key. It is always the same, so it does not reveal what is wrong."""
    return HttpError(401, "authentication_error", "invalid API key", "invalid_key")


def forbidden(message: str) -> HttpError:
    """Return the error for a request that the key does not permit."""
    return HttpError(403, "permission_error", message, "permission_denied")


def missing(kind: str) -> HttpError:
    """Return the error for an object that does not exist or that the key may not see.

    The message does not contain the id of the object.
    """
    return HttpError(404, "not_found_error", f"{kind} not found", "not_found")


def overloaded(message: str) -> HttpError:
    """Return the error for a request that the server cannot handle now."""
    return HttpError(503, "overloaded_error", message, "overloaded")


def api_error(error: RetentiveError) -> HttpError:
    """Convert an exception of the library to the error of the API."""
    status, kind = BY_CODE.get(error.code, (500, "api_error"))
    message, fields = str(error).removeprefix("Error: "), {}
    if kind == "memory_path_conflict_error":
        found = error.conflicting
        path = None if found is None else found.path[len(ROOT) :]
        fields = {"conflicting_memory_id": None if found is None else found.memory_id, "conflicting_path": path}
    return HttpError(status, kind, message, error.code, fields=fields)
