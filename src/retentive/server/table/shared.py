"""Fields and paths that several routes share."""

from __future__ import annotations

from retentive.server.fields import (
    FLAG,
    RATE,
    TIME,
    Field,
    choice,
    integer,
    text,
)
from retentive.server.keys import Scope

KEYS = "/v1/organizations/api_keys"
STORES = "/v1/memory_stores"
STORE = f"{STORES}/{{memory_store_id}}"
VERSION = f"{STORE}/memory_versions/{{memory_version_id}}"
READ: tuple[Scope, ...] = ("read",)
WRITE: tuple[Scope, ...] = ("write",)
REVIEW: tuple[Scope, ...] = ("review",)
ERASE: tuple[Scope, ...] = ("erase",)
ADMIN: tuple[Scope, ...] = ("admin",)
MODE = Field("mode", choice("refuse", "merge", "force", "partial"), "Treatment of later changes", default="refuse")
AT = Field("at", text(200), "State at this time, or after the change with this name or version id")
DRY_RUN = Field("dry_run", FLAG, "Report the steps, and change nothing", default=False)
LIMIT = Field("limit", integer(1, 100), "Objects in one page", default=20)
PAGE = Field("page", text(4_000), "The `next_page` of the page before")
RATE_LIMIT = Field("rate_limit", RATE, "Requests of the key, such as `50/s`, `600/m`, `1000/h` or `none`")

VIEW_BASIC = Field("view", choice("basic", "full"), "`full` includes the content", default="basic")
VIEW_FULL = Field("view", choice("basic", "full"), "`basic` leaves out the content", default="full")
PREFIX = Field("path_prefix", text(2_000), "Only paths below this directory; it begins and ends with `/`", default="/")
ORIGIN = (
    Field("source", text(2_000), "Source of the change, such as `user` or `tool:name`"),
    Field("session", text(255), "Session of the change"),
)
CREATED = (
    Field("created_at[gte]", TIME, "Only objects created at this time or later"),
    Field("created_at[lte]", TIME, "Only objects created at this time or earlier"),
)
