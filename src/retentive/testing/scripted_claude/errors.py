"""Error responses of the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ApiError(Exception):
    """Error response of the Messages API: a status of `KINDS`, message, details and headers."""

    def __init__(
        self,
        status: int,
        message: str,
        details: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.details = details
        self.headers = headers

    def body(self, request_id: str | None = None) -> dict[str, object]:
        """Return the JSON body of the error. An error response has a `request_id`; an event of a stream does not."""
        error: dict[str, object] = {"type": KINDS[self.status], "message": str(self)}
        if self.details is not None:
            error["details"] = self.details
        body: dict[str, object] = {"type": "error", "error": error}
        return body if request_id is None else {**body, "request_id": request_id}


def invalid(message: str) -> ApiError:
    """Return the error response for an invalid request (status 400)."""
    return ApiError(400, message)


def refuse_if(broken: object, message: str) -> None:
    """Raise the error response for an invalid request (status 400) if `broken` is true."""
    if broken:
        raise invalid(message)
