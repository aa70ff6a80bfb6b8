"""Reads the bodies of imports. A body is written to a temporary file while it arrives."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from anyio import to_thread

from retentive.server.errors import HttpError
from retentive.server.keys import KeyRecord
from retentive.transfer.files import mapped_os_errors, spool
from retentive.wire.errors import INVALID

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_UPLOAD_BYTES = 4 << 30
"""Maximum size of the body of an import, and of the decompressed archive in it."""
MAX_FILES = 100_000
"""Maximum number of files in an import, because an import is one transaction."""
MAX_TEXT_BYTES = 64 << 20
"""Maximum size of one text in an import, because each text is loaded into memory."""
UPLOAD_S = 600.0
"""Deadline of an export or import, in seconds. It is the timeout of the SDKs."""
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Upload:
    """Body of an import: a temporary file, and the SHA-256 of its bytes.

    If a request is cancelled, both its handler and the event loop may want to close the file. The first of them that
    calls `is_taken` closes the file.
    """

    file: IO[bytes] = field(repr=False)
    digest: str
    _owner: list[None] = field(default_factory=lambda: [None], repr=False)

    def is_taken(self) -> bool:
        """Claim the right to close the file. Return True if the right was claimed before. Thread-safe."""
        try:
            self._owner.pop()  # atomic
        except IndexError:
            return True
        return False

    def give_up(self) -> None:
        """Close the file, unless a handler has claimed it."""
        if not self.is_taken():
            self.file.close()


async def read_upload(request: Request, key: KeyRecord, reserve: Callable[[int], None]) -> Upload:
    """Write the body of a request to a temporary file. Raises `HttpError`.

    The limit is `MAX_UPLOAD_BYTES`, or less if the API key sets a lower limit.
    """
    reserve(_PIECE_BYTES)
    limit = min(key.max_body_bytes or MAX_UPLOAD_BYTES, MAX_UPLOAD_BYTES)
    digest, size, file = hashlib.sha256(), 0, spool()
    try:
        async for piece in _pieces(request):
            size += len(piece)
            _check(size, limit)
            digest.update(piece)
            await to_thread.run_sync(_write, file, piece)
    except BaseException:
        file.close()
        raise
    return Upload(file, digest.hexdigest())


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """Yield the body in pieces of about 1 MiB."""
    piece, more = bytearray(), True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise HttpError(400, INVALID, "the body is incomplete", "invalid_input")
        piece += message.get("body", b"")
        more = message.get("more_body", False)
        if len(piece) >= _PIECE_BYTES or not more:
            yield bytes(piece)
            piece.clear()


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise HttpError(413, "request_too_large", f"the body must have at most {limit} bytes", "body_too_large")


def _write(file: IO[bytes], data: bytes) -> None:
    with mapped_os_errors():
        file.write(data)
        file.flush()
