"""Sessions of MCP clients over streamable HTTP.

The server checks the API key of each request before it calls this module.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from retentive.mcp.service import McpService, McpTarget

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from starlette.types import Message, Receive, Scope, Send

MAX_SESSIONS = 1_000
IDLE_S = 1_800.0
MAX_BODY_BYTES = 64 << 20
"""Limit that is never reached, because the server checks the size of the body against a lower limit first."""
_TARGET = "retentive.mcp.target"


class HttpSessions:
    """Sessions of the MCP clients of one process.

    If `keeps_sessions` is False, clients of protocol revisions before 2026 get no session. Any process can answer their
    requests, but the server cannot show questions to their users, and cannot notify these clients of changes.
    """

    def __init__(self, *, keeps_sessions: bool) -> None:
        self._service = McpService(_target_of)
        self._manager = StreamableHTTPSessionManager(
            self._service.server(),
            stateless=not keeps_sessions,
            session_idle_timeout=IDLE_S if keeps_sessions else None,
            max_sessions=MAX_SESSIONS,
            max_request_body_size=MAX_BODY_BYTES,
        )
        self._is_stopping = asyncio.Event()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Context manager: inside the block, `answer` can be called. The end of the block closes the sessions."""
        return self._manager.run()

    def stop(self) -> None:
        """End the event streams. Calls in progress continue."""
        self._is_stopping.set()
        self._service.close()

    async def answer(self, scope: Scope, receive: Receive, send: Send, target: McpTarget, owner: str) -> None:
        """Answer a request of the caller `owner`. Only this caller may use a session that the request starts."""
        scope["state"][_TARGET] = target
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=owner, scopes=[]))
        if scope["method"] != "GET":
            await self._manager.handle_request(scope, receive, send)
            return
        is_open = False

        async def receive_or_stop() -> Message:
            """When the server stops, the event stream ends as if the client had disconnected."""
            message, stop = asyncio.ensure_future(receive()), asyncio.ensure_future(self._is_stopping.wait())
            try:
                await asyncio.wait((message, stop), return_when=asyncio.FIRST_COMPLETED)
                return message.result() if message.done() else {"type": "http.disconnect"}
            finally:
                message.cancel()
                stop.cancel()

        async def send_noting(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._manager.handle_request(scope, receive_or_stop, send_noting)
        if is_open:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _target_of(ctx: ServerRequestContext[Any, Any]) -> McpTarget:
    assert ctx.request is not None
    target: McpTarget = ctx.request.scope["state"][_TARGET]
    return target
