"""Parses JSON bodies and queries strictly. Duplicate names, NaN and lone surrogates are errors."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import NoReturn
from urllib.parse import parse_qsl

from retentive.server.errors import HttpError, invalid

_IGNORED = frozenset({"beta"})
"""Names in a query that are ignored. The SDKs send `?beta=true`."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_object(body: bytes) -> dict[str, object]:
    """Return the JSON object in the body of a request. An empty body counts as an empty object. Raises `HttpError`."""
    if not body:
        return {}
    try:
        value = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite
        )
        if _SURROGATE.search(body):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise invalid("the body must be valid UTF-8, without lone surrogates") from None
    except RecursionError:
        raise invalid("the body is nested too deeply") from None
    except ValueError as error:
        raise invalid(f"the body is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise invalid("the body must be a JSON object")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _malformed(f"{twice[:80]!r}: the name occurs twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _malformed(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _malformed(f"the number {text[:40]} is too large")
    return number


def _malformed(message: str) -> HttpError:
    return invalid(f"the body is not valid JSON: {message}")


def read_query(query: bytes) -> dict[str, object]:
    """Return the fields in the query of a URL, as texts. Raises `HttpError`."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            errors="strict",
            max_num_fields=40,
        )
    except ValueError:
        raise invalid("the query of the URL is malformed") from None
    kept = [(name, value) for name, value in pairs if name not in _IGNORED]
    given: dict[str, object] = dict(kept)
    if len(given) != len(kept):
        raise invalid("the query of the URL contains the same name twice")
    return given
