"""Answers that are streamed, such as files."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class ClosingResponse(StreamingResponse):
    """Streamed answer. Its generator is closed even if the client disconnects before the first piece was sent.

    After it, the generators in `also` are closed. Values in `also` that are not generators are ignored.
    """

    def __init__(
        self,
        pieces: Iterator[bytes] | Iterator[str],
        media_type: str,
        *,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        also: Iterable[object] = (),
    ) -> None:
        super().__init__(pieces, status_code, headers, media_type)
        self._generators = [each for each in (pieces, *also) if isinstance(each, Generator)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        with ExitStack() as stack:
            for each in reversed(self._generators):
                stack.callback(each.close)
            await super().__call__(scope, receive, send)
