"""The routes of the server. `routes.py` describes a row."""

from __future__ import annotations

from retentive.server.fields import (
    ACTOR_PATTERN,
    ANYTHING,
    FLAG,
    NAME,
    OBJECT,
    PRECONDITION,
    RATE,
    SHA256,
    TIME,
    Field,
    choice,
    integer,
    required,
    text,
    texts,
)
from retentive.server.handlers import (
    administration,
    commands,
    events,
    history,
    keys,
    memories,
    review,
    stores,
    tool,
    versions,
)
from retentive.server.keys import SCOPES, Scope
from retentive.server.routes import Route
from retentive.values.patterns import check_actor_pattern, check_name_pattern
from retentive.values.settings import NAMES

KEYS = "/v1/organizations/api_keys"
STORES = "/v1/memory_stores"
STORE = f"{STORES}/{{memory_store_id}}"
VERSION = f"{STORE}/memory_versions/{{memory_version_id}}"
READ: tuple[Scope, ...] = ("read",)
WRITE: tuple[Scope, ...] = ("write",)
REVIEW: tuple[Scope, ...] = ("review",)
ERASE: tuple[Scope, ...] = ("erase",)
ADMIN: tuple[Scope, ...] = ("admin",)
MODE = Field("mode", choice("refuse", "merge", "force"), "Treatment of later changes", default="refuse")
DRY_RUN = Field("dry_run", FLAG, "Report the steps, and change nothing", default=False)
LIMIT = Field("limit", integer(1, 100), "Objects in one page", default=20)
PAGE = Field("page", text(4_000), "The `next_page` of the page before")
RATE_LIMIT = Field("rate_limit", RATE, "Requests of the key, such as `50/s`, `600/m`, `1000/h` or `none`")

KEY_ROUTES = (
    Route(
        "POST",
        KEYS,
        ADMIN,
        keys.create_api_key,
        "new_api_key",
        "Create an API key in the workspace",
        body=(
            required("name", NAME, "Name of the key"),
            Field("scopes", texts(str, {"type": "string", "enum": list(SCOPES)}), "What the key may do"),
            Field("stores", texts(check_name_pattern), "Ids of memory stores, or patterns of their keys; default: all"),
            Field("act_as", texts(check_actor_pattern), "Patterns of the actors that a request may name"),
            Field("principal", OBJECT, "Actor of the changes made with the key; default: the key itself"),
            Field("expires_at", TIME, "When the key expires"),
            RATE_LIMIT,
            Field("max_body_bytes", integer(1, 1 << 26), "Limit of a body, if it is less than that of the store"),
        ),
        conflicts=True,
    ),
    Route(
        "GET",
        KEYS,
        ADMIN,
        keys.list_api_keys,
        "api_key_list",
        "List the API keys of the workspace, newest first",
        query=(
            Field("after_id", text(200), "List the keys after this one"),
            Field("before_id", text(200), "List the keys before this one"),
            Field("created_by_user_id", text(255), "List the keys that this user created"),
            Field("limit", integer(1, 1000), "Keys in one page", default=20),
            Field("status", choice("active", "inactive", "archived", "expired"), "List the keys with this status"),
            Field("workspace_id", text(255), "List the keys of this workspace"),
        ),
    ),
    Route("GET", f"{KEYS}/{{api_key_id}}", ADMIN, keys.retrieve_api_key, "api_key", "Retrieve an API key"),
    Route(
        "POST",
        f"{KEYS}/{{api_key_id}}",
        ADMIN,
        keys.update_api_key,
        "api_key",
        "Rename, limit, deactivate or archive an API key",
        body=(
            Field("name", NAME, "Name of the key"),
            Field("status", choice("active", "inactive", "archived"), "An archived key stays archived"),
            RATE_LIMIT,
        ),
        conflicts=True,
    ),
)
VIEW_BASIC = Field("view", choice("basic", "full"), "`full` includes the content", default="basic")
VIEW_FULL = Field("view", choice("basic", "full"), "`basic` leaves out the content", default="full")
PREFIX = Field("path_prefix", text(2_000), "Only paths below this directory; it begins and ends with `/`", default="/")
CREATED = (
    Field("created_at[gte]", TIME, "Only objects created at this time or later"),
    Field("created_at[lte]", TIME, "Only objects created at this time or earlier"),
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
STORE_ROUTES = (
    Route(
        "POST",
        f"{STORE}/tool",
        ("read", "write"),
        tool.run_tool,
        "tool_result",
        "Run a tool_use block of the memory tool; `view` needs the scope `read`, the other commands `write`",
        body=(
            required("type", choice("tool_use"), "Type of the block"),
            required("id", text(min_chars=1), "Id of the block. The same id again gets the same result for 24 hours"),
            Field("name", ANYTHING, "Name of the tool"),
            Field("input", ANYTHING, "The command"),
            Field("caller", ANYTHING, "Ignored"),
            Field("cache_control", ANYTHING, "Ignored"),
        ),
    ),
    Route(
        "POST",
        f"{STORE}/commands",
        ("read", "write"),
        commands.run_command,
        "command_result",
        "Run a command of the memory tool, or `write`, `append` or `clear`; `view` needs the scope `read`,"
        " the others `write`",
        body=(
            required("command", ANYTHING, "Input of the tool. `write` and `append` have the fields of `create`"),
            Field("id", text(min_chars=1), "The same id again gets the same result for 24 hours"),
            Field("if_version", text(200), "Id that the newest version must have; empty if there must be no memory"),
            Field("source", text(), "Source of the change, such as `user` or `tool:name`"),
            Field("session", text(), "Session of the change"),
        ),
        conflicts=True,
    ),
    Route(
        "GET",
        f"{STORE}/events",
        READ,
        events.stream_events,
        "stream:text/event-stream",
        "Send the changes of the memories as they happen, as server-sent events",
        query=(Field("after", text(50), "Begin after the event with this id; the header `Last-Event-ID` wins"),),
    ),
    Route("GET", f"{STORE}/usage", READ, administration.retrieve_usage, "memory_store_usage", "Count the memories"),
    Route(
        "GET",
        f"{STORE}/settings",
        READ,
        administration.retrieve_settings,
        "memory_store_settings",
        "Retrieve the settings",
    ),
    Route(
        "POST",
        f"{STORE}/settings",
        ADMIN,
        administration.update_settings,
        "memory_store_settings",
        "Change settings; null restores a default",
        body=tuple(Field(name, ANYTHING, "See docs/guards.md", is_patch=True) for name in NAMES),
    ),
    Route(
        "GET",
        f"{STORE}/audit_entries",
        ADMIN,
        administration.list_audit_entries,
        "list:audit_entry",
        "List the audit log, oldest first",
        query=(LIMIT, PAGE),
    ),
    Route("GET", f"{STORE}/audit/verify", ADMIN, administration.verify_audit, "audit_report", "Verify the audit log"),
    Route(
        "GET",
        f"{STORE}/export",
        ADMIN,
        administration.export_store,
        "stream:application/x-tar|application/gzip",
        "Export the memories and their history",
        query=(Field("format", choice("tar", "tar.gz"), "Format of the archive", default="tar"),),
    ),
    Route(
        "POST",
        f"{STORE}/memories/{{memory_id}}/erase",
        ERASE,
        administration.erase_memory,
        "memory_erased",
        "Permanently remove a memory with its history",
    ),
)
MEMORY = f"{STORE}/memories/{{memory_id}}"
PLACE_ROUTES = (
    Route(
        "POST",
        STORES,
        ADMIN,
        stores.create_memory_store,
        "memory_store",
        "Create a memory store",
        body=(
            required("name", NAME, "Display name"),
            Field("description", text(1_024), "What the store is for"),
            Field("metadata", OBJECT, "At most 16 texts by name"),
            Field("key", NAME, "Key, unique in the workspace; if it is taken, the answer is that store"),
        ),
        conflicts=True,
    ),
    Route(
        "GET",
        STORES,
        READ,
        stores.list_memory_stores,
        "list:memory_store",
        "List memory stores, newest first",
        query=(
            *CREATED,
            Field("include_archived", FLAG, "List archived stores too", default=False),
            Field("key", NAME, "Only the store with this key"),
            LIMIT,
            PAGE,
        ),
    ),
    Route("GET", STORE, READ, stores.retrieve_memory_store, "memory_store", "Retrieve a memory store"),
    Route(
        "POST",
        STORE,
        ADMIN,
        stores.update_memory_store,
        "memory_store",
        "Change a memory store",
        body=(
            Field("name", NAME, "Display name"),
            Field("description", text(1_024), "What the store is for"),
            Field("metadata", OBJECT, "Texts by name; null removes one"),
        ),
        conflicts=True,
    ),
    Route("DELETE", STORE, ADMIN, stores.delete_memory_store, "memory_store_deleted", "Erase a memory store"),
    Route("POST", f"{STORE}/archive", ADMIN, stores.archive_memory_store, "memory_store", "Archive a memory store"),
    Route(
        "POST",
        f"{STORE}/memories",
        WRITE,
        memories.create_memory,
        "memory",
        "Create a memory",
        query=(VIEW_BASIC,),
        body=(
            required("path", text(2_000), "Path, which begins with `/`"),
            required("content", text(), "Text of the memory"),
        ),
        conflicts=True,
    ),
    Route(
        "GET",
        f"{STORE}/memories",
        READ,
        memories.list_memories,
        "list:memory|memory_prefix",
        "List memories by path",
        query=(
            PREFIX,
            Field("depth", integer(0, 1), "1 lists one level, with its directories", default=0),
            VIEW_BASIC,
            LIMIT,
            PAGE,
        ),
    ),
    Route(
        "GET",
        f"{STORE}/memory",
        READ,
        memories.read_memory,
        "memory",
        "Retrieve the memory at a path",
        query=(required("path", text(2_000), "Path, which begins with `/`"), VIEW_FULL),
    ),
    Route("GET", MEMORY, READ, memories.retrieve_memory, "memory", "Retrieve a memory", query=(VIEW_FULL,)),
    Route(
        "POST",
        MEMORY,
        WRITE,
        memories.update_memory,
        "memory",
        "Change a memory",
        query=(VIEW_BASIC,),
        body=(
            Field("content", text(), "New text"),
            Field("path", text(2_000), "New path"),
            Field("precondition", PRECONDITION, "Hash that the content must have"),
        ),
        conflicts=True,
    ),
    Route(
        "DELETE",
        MEMORY,
        WRITE,
        memories.delete_memory,
        "memory_deleted",
        "Delete a memory",
        query=(Field("expected_content_sha256", SHA256, "Hash that the content must have"),),
        conflicts=True,
    ),
)
ROUTES: tuple[Route, ...] = (
    *PLACE_ROUTES,
    *KEY_ROUTES,
    *VERSION_ROUTES,
    *HISTORY_ROUTES,
    *REVIEW_ROUTES,
    *STORE_ROUTES,
)
