"""Answers that are sent as files."""

from __future__ import annotations

from collections.abc import Generator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class ClosingResponse(StreamingResponse):
    """Streamed answer. Its generator is closed even if the client disconnects before the first piece was sent."""

    def __init__(self, pieces: Generator[bytes], media_type: str) -> None:
        super().__init__(pieces, media_type=media_type)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._pieces.close()
