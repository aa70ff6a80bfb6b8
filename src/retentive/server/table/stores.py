"""Routes of memory stores and memories."""

from __future__ import annotations

from retentive.server.fields import (
    FLAG,
    NAME,
    OBJECT,
    PRECONDITION,
    SHA256,
    Field,
    integer,
    required,
    text,
)
from retentive.server.handlers import (
    memories,
    stores,
)
from retentive.server.routes import Route
from retentive.server.table.shared import (
    ADMIN,
    CREATED,
    LIMIT,
    PAGE,
    PREFIX,
    READ,
    STORE,
    STORES,
    VIEW_BASIC,
    VIEW_FULL,
    WRITE,
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
