"""Routes of versions, their history, and proposals."""

from __future__ import annotations

from retentive.server.fields import (
    ACTOR_PATTERN,
    FLAG,
    TIME,
    Field,
    choice,
    required,
    text,
)
from retentive.server.handlers import (
    history,
    review,
    versions,
)
from retentive.server.routes import Route
from retentive.server.table.shared import (
    CREATED,
    DRY_RUN,
    ERASE,
    LIMIT,
    MODE,
    PAGE,
    PREFIX,
    READ,
    REVIEW,
    STORE,
    VERSION,
    VIEW_BASIC,
    VIEW_FULL,
    WRITE,
)

VERSION_ROUTES = (
    Route(
        "GET",
        f"{STORE}/memory_versions",
        READ,
        versions.list_memory_versions,
        "list:memory_version",
        "List the versions of memories, newest first",
        query=(
            Field("memory_id", text(200), "Only versions of this memory"),
            Field("operation", choice("created", "modified", "deleted"), "Only versions of this kind"),
            Field("session_id", text(255), "Only versions written in this session"),
            Field("api_key_id", text(255), "Only versions written with this key"),
            Field("service_account_id", text(255), "Only versions written by this service account"),
            Field("actor", ACTOR_PATTERN, "Only versions by actors that match, such as session:*"),
            PREFIX,
            *CREATED,
            VIEW_BASIC,
            LIMIT,
            PAGE,
        ),
    ),
    Route(
        "GET",
        VERSION,
        READ,
        versions.retrieve_memory_version,
        "memory_version",
        "Retrieve a version",
        query=(VIEW_FULL,),
    ),
    Route(
        "POST",
        f"{VERSION}/redact",
        ERASE,
        versions.redact_memory_version,
        "memory_version",
        "Permanently remove the content, path, size and hash of a version",
    ),
)
HISTORY_ROUTES = (
    Route(
        "GET",
        f"{STORE}/memories/{{memory_id}}/blame",
        READ,
        history.blame_memory,
        "memory_blame",
        "Retrieve each line of a memory with the version that added it",
    ),
    Route(
        "GET",
        f"{VERSION}/diff",
        READ,
        history.diff_memory_version,
        "memory_diff",
        "Compare a version with another one",
        query=(Field("against", text(200), "Id of the version to compare with, or `previous`", default="previous"),),
    ),
    Route(
        "POST",
        f"{STORE}/undo",
        WRITE,
        history.undo_change,
        "change_result",
        "Undo a change, or the changes of an actor",
        body=(
            Field("memory_version_id", text(200), "A version of the change"),
            Field("revision", text(200), "Name of the change, such as r1234 or HEAD~2"),
            Field("path", text(2_000), "With `revision`: only changes of this memory or directory count"),
            Field("actor", text(), "Pattern of actors, such as session:s1"),
            Field("since", TIME, "With `actor`: only changes since this time"),
            MODE,
            DRY_RUN,
        ),
        conflicts=True,
    ),
    Route(
        "POST",
        f"{STORE}/restore",
        WRITE,
        history.restore_path,
        "change_result",
        "Restore a memory, a directory or the store to an earlier moment",
        body=(
            required("path", text(2_000), "Path of a memory or a directory; `/` is the whole store"),
            required("at", text(200), "Id of a version, a time, or the name of a change, such as r1234"),
            MODE,
            DRY_RUN,
        ),
        conflicts=True,
    ),
)
REVIEW_ROUTES = (
    Route(
        "GET",
        f"{STORE}/proposals",
        REVIEW,
        review.list_proposals,
        "list:proposal",
        "List the pending proposals, oldest first",
        query=(Field("actor", text(300), "List the proposals of this actor, such as session:s1"), LIMIT, PAGE),
    ),
    Route(
        "GET",
        f"{STORE}/proposals/{{proposal_id}}",
        REVIEW,
        review.retrieve_proposal,
        "proposal",
        "Retrieve a pending proposal with its texts",
    ),
    Route(
        "POST",
        f"{STORE}/proposals/{{proposal_id}}/accept",
        REVIEW,
        review.accept_proposal,
        "proposal_decision",
        "Apply a proposal",
        body=(
            Field("merge", FLAG, "Merge with later changes by line", default=False),
            Field("force", FLAG, "Overwrite later changes", default=False),
        ),
        conflicts=True,
    ),
    Route(
        "POST",
        f"{STORE}/proposals/{{proposal_id}}/refuse",
        REVIEW,
        review.refuse_proposal,
        "proposal_decision",
        "Remove a proposal",
        conflicts=True,
    ),
)
