"""Routes for trust in memories: memories that are not trusted, confirmations and quarantine."""

from __future__ import annotations

from retentive.server.fields import Field, choice, required, text
from retentive.server.handlers import trust
from retentive.server.route import Route
from retentive.server.table.shared import ADMIN, LIMIT, PAGE, PREFIX, REVIEW, STORE

PATTERN = required("pattern", text(300, min_chars=1), "Pattern of contributors, such as session:s1 or source:web:*")
TRUST_ROUTES = (
    Route(
        "GET",
        f"{STORE}/doubted_memories",
        REVIEW,
        trust.list_doubted_memories,
        "list:doubted_memory",
        "List the memories that are not trusted, hidden ones included, by path",
        query=(
            PREFIX,
            Field("level", choice("unconfirmed", "quarantined"), "Only memories at this level"),
            LIMIT,
            PAGE,
        ),
    ),
    Route(
        "POST",
        f"{STORE}/trust/confirm",
        REVIEW,
        trust.confirm_memories,
        "trust_confirmation",
        "Trust the present text of a memory, or of all memories below a directory",
        body=(required("path", text(2_000), "Path of a memory or a directory; `/` is the whole store"),),
    ),
    Route(
        "POST",
        f"{STORE}/trust/quarantine",
        ADMIN,
        trust.quarantine_contributors,
        "quarantine_change",
        "Hide all memories to which an actor, a session or a source contributed",
        body=(PATTERN,),
    ),
    Route(
        "POST",
        f"{STORE}/trust/release",
        ADMIN,
        trust.release_contributors,
        "quarantine_change",
        "End the quarantine of contributors",
        body=(PATTERN,),
    ),
)
