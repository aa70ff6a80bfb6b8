"""Routes of API keys."""

from __future__ import annotations

from retentive.server.fields import (
    NAME,
    OBJECT,
    TIME,
    Field,
    choice,
    integer,
    required,
    text,
    texts,
)
from retentive.server.handlers import (
    keys,
    repeats,
)
from retentive.server.keys import SCOPES
from retentive.server.route import Route
from retentive.server.table.shared import ADMIN, KEYS, RATE_LIMIT
from retentive.values.patterns import check_actor_pattern, check_name_pattern, check_path_pattern

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
            Field("paths", texts(check_path_pattern), "Patterns of the only paths that it sees; default: all"),
            Field("act_as", texts(check_actor_pattern), "Patterns of the actors that a request may name"),
            Field("principal", OBJECT, "Actor of the changes made with the key; default: the key itself"),
            Field("expires_at", TIME, "When the key expires"),
            RATE_LIMIT,
            Field("max_body_bytes", integer(1, 1 << 26), "Limit of a body, if it is less than that of the store"),
        ),
        conflicts=True,
        again=keys.shown_once,
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
        again=repeats.unchanged,
    ),
)
