"""Observes requests and memory operations: metrics, spans, and JSON logs that contain no memory texts."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from retentive.server.metrics import STREAMS, Metrics

if TYPE_CHECKING:
    from starlette.types import Scope

    from retentive.server.calls import RouteAnswer, RouteCall
    from retentive.server.route import Route
    from retentive.server.tracing import Tracing

LOGGERS = ("retentive", "uvicorn", "mcp")


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Metrics and tracing of a server. Each is None if it is not configured."""

    metrics: Metrics | None = None
    tracing: Tracing | None = None

    @contextmanager
    def request(self, scope: Scope, state: Mapping[str, Any]) -> Iterator[None]:
        """Measure a request until the block ends.

        By then, `state` must contain the route, status and code of the request.
        """
        started, metrics = time.perf_counter(), self.metrics
        is_stream = metrics is not None and scope["path"].endswith(STREAMS)
        if metrics is not None and is_stream:
            metrics.streams.inc()
        try:
            with nullcontext() if self.tracing is None else self.tracing.request(scope, state):
                yield
        finally:
            if metrics is not None:
                metrics.count_request(scope["method"], state, time.perf_counter() - started)
                if is_stream:
                    metrics.streams.dec()

    def observed(self, route: Route, call: RouteCall, work: Callable[[], RouteAnswer]) -> Callable[[], RouteAnswer]:
        """Return a function that calls `work` and observes this call.

        It records how long the call waited, the span of the call, and whether a change was made.
        """
        queued, metrics = time.perf_counter(), self.metrics

        def run() -> RouteAnswer:
            if metrics is not None:
                metrics.wait.observe(time.perf_counter() - queued)
            answer = work() if self.tracing is None else self.tracing.operation(route, call, _command(call), work)
            if metrics is not None and _is_change(route, call) and not getattr(answer, "is_error", False):
                metrics.commits.labels(route.path, route.method).inc()
            return answer

        return run


def _command(call: RouteCall) -> str:
    """Return the command in the input of a tool_use block, or an empty string if there is none."""
    given = call.given.get("input")
    found = given.get("command") if isinstance(given, Mapping) else None
    return found if isinstance(found, str) else ""


def _is_change(route: Route, call: RouteCall) -> bool:
    if route.method == "GET" or route.scopes == ("read",):
        return False
    return not (route.name == "run_tool" and _command(call) == "view")


class JsonLog(logging.Formatter):
    """Formats log records as lines of JSON.

    An exception is logged as its type and its lines of code. Its message is left out, because it may quote a memory.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        fields = getattr(record, "fields", None)
        line |= fields if isinstance(fields, dict) else {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["frames"] = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(record.exc_info[2])]
        return json.dumps(line, ensure_ascii=False)


def log_as_json(*, requests: bool) -> None:
    """Write the logs of the server to standard error as JSON. With `requests`, each request is logged too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLog())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("retentive.server").setLevel(logging.INFO)
    logging.getLogger("retentive.server.requests").setLevel(logging.INFO if requests else logging.WARNING)
    logging.getLogger("mcp").setLevel(logging.ERROR)  # the warnings of this package quote requests
