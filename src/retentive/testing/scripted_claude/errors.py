"""Error responses of the Messages API, all as one exception type."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")
_TYPES = {str: "a valid string", int: "a valid integer", bool: "a valid boolean", list: "a valid list"}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ApiError(Exception):
    """Error response of the Messages API: status, error type, message and headers."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        details: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.details = details
        self.headers = headers

    def body(self, request_id: str | None = None) -> dict[str, object]:
        """JSON body in the API's error format. Responses contain a `request_id`; stream events do not."""
        error: dict[str, object] = {"type": self.kind, "message": str(self)}
        if self.details is not None:
            error["details"] = self.details
        body: dict[str, object] = {"type": "error", "error": error}
        return body if request_id is None else {**body, "request_id": request_id}


def invalid(message: str) -> ApiError:
    """Create the error response for an invalid request."""
    return ApiError(400, "invalid_request_error", message)


def typed(value: object, kind: type[T], where: str) -> T:
    """Return `value` if it has the JSON type `kind`. Raises `ApiError` otherwise."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise invalid(f"{where}: Input should be {_TYPES.get(kind, 'an object')}")
    return value
