"""Responses that are streamed, such as files."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class ClosingResponse(StreamingResponse):
    """Streamed response that closes its generator, even if the client disconnects before the first piece was sent.

    It then closes the generators in `also`. Values in `also` that are not generators are ignored.
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
        """Send the response, then close the generators."""
        with ExitStack() as stack:
            for each in reversed(self._generators):
                stack.callback(each.close)
            await super().__call__(scope, receive, send)
