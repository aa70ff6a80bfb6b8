"""Errors of the API: status, type and code of each, and the mapping from errors of the library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute
from starlette.types import Scope

from retentive.errors import NotFound, RetentiveError
from retentive.wire.errors import BY_CODE, INVALID, ErrorAnswer, ErrorDetails, ErrorObject

RETRY_AFTER_S = 1
"""Value of the header `retry-after`. Both SDKs sleep for that time."""
NEVER_RETRIED = frozenset({409, 500, 507})
"""Statuses for which a retry would get the same answer. Both SDKs retry them unless a header forbids it."""


class HttpError(Exception):
    """Error that becomes the response to a request. `fields` are added to the error object in its body.

    `headers` are headers of the response, such as `retry_after`.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        code: str,
        *,
        fields: Mapping[str, Any] | None = None,
        **headers: str,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.code = code
        self.fields = dict(fields or {})
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def body(self, request_id: str) -> str:
        """Return the body of the response."""
        details = ErrorDetails(error_code=self.code)
        error = ErrorObject(type=self.kind, message=self.message, details=details, **self.fields)
        return ErrorAnswer(type="error", error=error, request_id=request_id).model_dump_json(exclude_unset=True)

    def headers(self) -> dict[str, str]:
        """Return the headers of the response. They tell clients whether and when to retry."""
        found = {"retry-after": str(RETRY_AFTER_S)} if self.status == 503 else {}
        found |= {"x-should-retry": "false"} if self.status in NEVER_RETRIED else {}
        found |= {"connection": "close"} if self.status in {408, 413} else {}
        return {**found, **self._headers}


def error_response(scope: Scope, error: HttpError) -> Response:
    """Return the response for an error, and store the error code in `scope` for the request log."""
    scope["state"]["code"] = error.code
    body = error.body(scope["state"]["request_id"])
    return Response(body, error.status, error.headers(), media_type="application/json")


def invalid(message: str, code: str = "invalid_input") -> HttpError:
    """Return the error for a malformed request."""
    return HttpError(400, INVALID, message, code)


def no_method(allowed: str) -> HttpError:
    """Return the error for a method that the path does not have. `allowed` are those that it has."""
    return HttpError(405, INVALID, "method not allowed", "method_not_allowed", allow=allowed)


def only(method: str, path: str, answer: Callable[[Request], Awaitable[Response]]) -> HttpRoute:
    """Return a route that refuses other methods with an error like all others."""

    async def checked(request: Request) -> Response:
        if request.method not in {method, "HEAD" if method == "GET" else ""}:
            return error_response(request.scope, no_method(method))
        return await answer(request)

    found = HttpRoute(path, checked)
    found.methods = None  # that of starlette would be plain text
    return found


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


@contextmanager
def finding(kind: str) -> Iterator[None]:
    """Answer 404 if the block raises `NotFound`."""
    try:
        yield
    except NotFound:
        raise missing(kind) from None


def overloaded(message: str) -> HttpError:
    """Return the error for a request that the server cannot handle now."""
    return HttpError(503, "overloaded_error", message, "overloaded")


def api_error(error: RetentiveError) -> HttpError:
    """Convert an exception of the library to the error of the API."""
    status, kind = BY_CODE.get(error.code, (500, "api_error"))
    message, fields = str(error).removeprefix("Error: "), {}
    if kind == "memory_path_conflict_error":
        found = error.conflicting
        path = None if found is None else found.path
        fields = {"conflicting_memory_id": None if found is None else found.memory_id, "conflicting_path": path}
    return HttpError(status, kind, message, error.code, fields=fields)
