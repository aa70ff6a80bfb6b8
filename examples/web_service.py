"""Web service for many users: each user chats with Claude, which keeps a separate memory for each of them.

    cd examples
    echo '{"'$(printf ann-secret | sha256sum | cut -d' ' -f1)'": "ann"}' > users.json
    RETENTIVE_AT=sqlite:///memory.db WEB_USERS=users.json uvicorn web_service:app --workers 2

Needs `pip install 'anthropic>=2.11,<3' fastapi uvicorn` and an API key in ANTHROPIC_API_KEY. WEB_USERS names a JSON
file that maps the SHA-256 of each user's token to the user's name. Put TLS in front of it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated
from uuid import UUID, uuid4

from anthropic import AsyncAnthropic
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

import retentive
from retentive import MemoryStore, Retentive, RetentiveError
from retentive.agent import AgentError, AsyncAgent, Budget

log = logging.getLogger(__name__)
BUDGET = Budget(max_turns=20, max_tokens=2_048, max_total_tokens=200_000)
STATUSES = {"not_found": 404, "invalid_input": 400, "invalid_path": 400, "read_only": 403}


class Message(BaseModel):
    """Message of a user."""

    text: str


class Answer(BaseModel):
    """Answer of Claude, and the id of the session, with which the user can undo its changes."""

    text: str
    session: UUID


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the location and the client once for each worker process."""
    users = read_users(os.environ["WEB_USERS"])
    with retentive.open(os.environ.get("RETENTIVE_AT", "sqlite:///memory.db")) as memories:
        async with AsyncAnthropic() as client:
            app.state.users, app.state.memories, app.state.client = users, memories, client
            yield


def read_users(path: str) -> dict[str, str]:
    """Read the names of the users by the SHA-256 of their tokens."""
    users: dict[str, str] = json.loads(Path(path).read_text("utf-8"))
    return users


app = FastAPI(title="An assistant with a memory for each user", lifespan=lifespan)


def user_of(request: Request, token: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    """Return the name of the user with this token. The name never comes from the request itself."""
    digest = hashlib.sha256(token.credentials.encode()).hexdigest()
    user: str | None = request.app.state.users.get(digest)
    if user is None:
        raise HTTPException(401, "unknown token")
    return user


User = Annotated[str, Depends(user_of)]


def store_of(request: Request, user: User) -> MemoryStore:
    """Open the memory store of the user. Its first use creates it."""
    memories: Retentive = request.app.state.memories
    return memories.store(f"user-{user}", name=user)


Store = Annotated[MemoryStore, Depends(store_of)]


@app.post("/chat")
async def chat(message: Message, request: Request, store: Store) -> Answer:
    """Answer a message in a new session. Claude reads and changes the memory of this user only."""
    session = uuid4()
    client: AsyncAnthropic = request.app.state.client
    async with AsyncAgent(client, memory=store, actor=f"session:{session}", budget=BUDGET) as agent:
        try:
            return Answer(text=await agent.ask(message.text), session=session)
        except AgentError as error:
            log.warning("session %s: %s: %s", session, error.code, error)  # users get only the code
            raise HTTPException(503 if error.retryable else 502, error.code) from error


@app.get("/memories")
def memories(store: Store) -> dict[str, int]:
    """Return the paths of the user's memories, with their sizes in bytes."""
    return {memory.path: memory.size_bytes for memory in store.memories()}


@app.get("/memories/{path:path}")
def text(path: str, store: Store) -> dict[str, str]:
    """Return the text of a memory of the user."""
    return {"text": store.read(f"/memories/{path}")}


@app.get("/history")
def history(store: Store) -> list[dict[str, str]]:
    """Return the last 100 changes of the user's memories, newest first."""
    return [
        {"operation": version.operation, "path": version.path, "actor": str(version.actor)}
        for version in store.versions(limit=100)
        if version.path
    ]


@app.post("/undo/{session}")
def undo(session: UUID, store: Store, user: User) -> dict[str, list[str]]:
    """Revert the changes of a session, or answer 409 if later changes depend on them."""
    outcome = store.undo_by(f"session:{session}", actor=f"user:{user}")
    if outcome.conflicts:
        raise HTTPException(409, [f"{conflict.path}: {conflict.reason}" for conflict in outcome.conflicts])
    return {"undone": [step.path for step in outcome.steps]}


@app.delete("/memories")
def forget(request: Request, store: Store, user: User) -> dict[str, bool]:
    """Permanently remove the user's memories with their history. While `pending`, a reader still uses their bytes."""
    memories: Retentive = request.app.state.memories
    return {"pending": memories.erase(store.id, actor=f"user:{user}").pending}


@app.exception_handler(RetentiveError)
def failed(_request: Request, error: RetentiveError) -> JSONResponse:
    """Answer with the code of the error, and with 503 if the client can try again. The log has the cause."""
    if error.retryable or error.code not in STATUSES:
        log.error("%s: %s", error.code, error, exc_info=error)
    if error.retryable:
        return JSONResponse({"detail": error.code}, 503, {"retry-after": "5"})
    return JSONResponse({"detail": error.code}, STATUSES.get(error.code, 500))
