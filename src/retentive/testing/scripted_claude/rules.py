"""Error responses of the Messages API, and the rules that the API checks. The file `rules.tsv` lists the rules.

Each rule has a source: a page of the API documentation ("docs"), the types of the SDK ("types"), or a public report of
the error. If a source ends with "own words", the rule is documented, but the text of its error is not public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
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
    """Error response of the Messages API: status, error type, message and headers.

    `rule` is the name of the rule in `rules.RULES`. It is empty for simulated faults and failures of a script.
    """

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        details: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        rule: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.details = details
        self.headers = headers
        self.rule = rule

    def body(self, request_id: str | None = None) -> dict[str, object]:
        """Return the JSON body of the error. An error response has a `request_id`; an event of a stream does not."""
        error: dict[str, object] = {"type": self.kind, "message": str(self)}
        if self.details is not None:
            error["details"] = self.details
        body: dict[str, object] = {"type": "error", "error": error}
        return body if request_id is None else {**body, "request_id": request_id}


def invalid(message: str) -> ApiError:
    """Return the error response for an invalid request (status 400)."""
    return ApiError(400, "invalid_request_error", message)


@dataclass(frozen=True, slots=True)
class ApiRule:
    """Rule of the API, with the status and text of its error, and its source. `text` is a format string."""

    status: int
    source: str
    text: str


def _read() -> dict[str, ApiRule]:
    rows = (line.split("\t") for line in files(__package__).joinpath("rules.tsv").read_text("utf-8").splitlines()[1:])
    return {name: ApiRule(int(status), source, text) for name, status, source, text in rows}


RULES: Mapping[str, ApiRule] = _read()


def refusal(rule: str, where: str = "", *, details: Mapping[str, object] | None = None, **values: object) -> ApiError:
    """Return the error of a rule in `RULES`. `where` and `values` replace the placeholders in its text."""
    row = RULES[rule]
    return ApiError(row.status, KINDS[row.status], row.text.format(where=where, **values), details, rule=rule)


def refuse_if(broken: object, rule: str, where: str = "", **values: object) -> None:
    """Raise the error of a rule in `RULES` if `broken` is true."""
    if broken:
        raise refusal(rule, where, details=None, **values)
