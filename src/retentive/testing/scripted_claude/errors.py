"""What the Messages API answers instead of a message, as one exception with its HTTP form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class ApiError(Exception):
    """A request the Messages API would refuse, with the status, the error body and the headers it would send."""

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
        """The JSON body, in the API's error shape; that of a response names the request, an event does not."""
        error: dict[str, object] = {"type": self.kind, "message": str(self)}
        if self.details is not None:
            error["details"] = self.details
        body: dict[str, object] = {"type": "error", "error": error}
        return body if request_id is None else {**body, "request_id": request_id}


def invalid(message: str) -> ApiError:
    """The error for a request that is wrong in itself."""
    return ApiError(400, "invalid_request_error", message)
