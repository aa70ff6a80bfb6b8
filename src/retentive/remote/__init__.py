"""Uses the library over HTTP. The server is `retentive serve`.

Only `Client.call` does I/O. The async classes run it in worker threads, as they run local stores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from retentive.remote.store import RemoteStore


def is_remote(opened: object) -> bool:
    """Return whether an open memory store or location is on a server. This check imports no module."""
    return hasattr(type(opened), "is_on_server")


def remote_store(store: object) -> RemoteStore | None:
    """Return `store` if it is a memory store on a server. Otherwise return None."""
    return cast("RemoteStore", store) if is_remote(store) else None
