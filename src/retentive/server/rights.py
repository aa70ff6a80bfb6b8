"""Rights of a caller: the scopes that it has in memory stores, in all of a store or for some paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from itertools import chain
from typing import Any, get_args

from retentive.errors import InvalidInput
from retentive.storage.contract import Actor, StoreInfo, as_actor
from retentive.values.patterns import check_name_pattern, check_path_pattern, matches_actor
from retentive.wire.stores import GatewayMode, KeyStatus, Scope

SCOPES: tuple[Scope, ...] = get_args(Scope)
OF_PATHS: frozenset[Scope] = frozenset({"read", "write"})
"""Scopes that can be limited to paths. The other scopes apply to whole memory stores."""
ID_PREFIX = "apikey_"
ALL_STORES = "*"
"""Pattern of all memory stores, also of those without a key."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Scopes in some memory stores of a workspace.

    `stores` lists ids of memory stores and patterns that match their keys, and `paths` patterns of paths. If `paths` is
    empty, the grant is for all paths. If `stores` is empty too, it is for the workspace: all memory stores, and the API
    keys, groups and webhooks. `group` is the id of the group that the grant comes from, or empty.
    """

    stores: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()
    paths: tuple[str, ...] = ()
    group: str = ""

    @property
    def is_of_workspace(self) -> bool:
        """True if the grant is limited neither to memory stores nor to paths."""
        return not (self.stores or self.paths)

    def allows(self, scope: Scope) -> bool:
        """Return whether the grant has a scope. The scope `admin` includes all others."""
        return scope in self.scopes or "admin" in self.scopes

    def covers(self, store_id: str, store_key: str | None) -> bool:
        """Return whether the grant gives a scope in a memory store."""
        return bool(self.scopes) and in_patterns(self.stores, store_id, store_key)

    def checked(self) -> Grant:
        """Return the grant with its scopes in order, and its paths in Unicode NFC. Raises `InvalidInput`."""
        for pattern in self.stores:
            check_name_pattern(pattern)
        if self.paths and not {*OF_PATHS, "gateway"}.issuperset(self.scopes):
            raise InvalidInput("a key that is limited to paths can have only the scopes read and write, or gateway")
        scopes = tuple(scope for scope in SCOPES if scope in self.scopes)
        return replace(self, scopes=scopes, paths=tuple(map(check_path_pattern, self.paths)))


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """Stored record of an API key. The rights of an OAuth token or a sign-in have the same form.

    `digest` is the SHA-256 of the text of the key. The text is random, so no slow hash is needed. `stores` lists the
    memory stores that the key may see: their ids, or patterns that match their store keys. If it is empty, the key sees
    all memory stores of its workspace. `paths` lists patterns of the paths that the key may see and change. If it is
    empty, the key may see and change all paths. `act_as` lists patterns of the actors that a request with the key may
    name. `principal` is the actor that the key belongs to, such as `user:ann`. `rate_limit` is a text such as `50/s`,
    `none` for no limit, or None for the default limit of the server. `gateway_mode` says if the gateway adds the memory
    tool to requests, or acts only if they declare it.

    `grants` are rights in addition to `scopes`, `stores` and `paths`. `claimed` are the groups that the token of an
    identity provider names. If `joins_groups` is false, an admin of only some stores chose the principal, so the record
    gets nothing that belongs to it: no grants of groups, and no sign-ins. Only a record that `within` returns has
    `write_paths`: patterns of the paths that it may change; None for those that it may see. If `only_store` is set, the
    record has rights in the memory store with this id only.
    """

    id: str
    name: str
    digest: str
    partial_key_hint: str
    workspace_id: str
    scopes: tuple[Scope, ...]
    created_at: str
    created_by: str | None = None
    status: KeyStatus = "active"
    stores: tuple[str, ...] = ()
    act_as: tuple[str, ...] = ()
    principal: str | None = None
    expires_at: str | None = None
    rate_limit: str | None = None
    paths: tuple[str, ...] = ()
    gateway_mode: GatewayMode = "declared"
    grants: tuple[Grant, ...] = ()
    claimed: tuple[str, ...] = ()
    joins_groups: bool = True
    write_paths: tuple[str, ...] | None = None
    only_store: str = ""

    def status_at(self, now: datetime) -> KeyStatus:
        """Return the status of the key at a time: its stored status, or `expired`."""
        if self.status == "active" and self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now:
            return "expired"
        return self.status

    @property
    def held(self) -> Iterator[Grant]:
        """All rights: those of the record itself, then `grants`."""
        return chain((Grant(self.stores, self.scopes, self.paths),), self.grants)

    def allows(self, scope: Scope) -> bool:
        """Return whether the record has a scope, itself or by a grant for the workspace."""
        return next(self.held).allows(scope) or any(each.is_of_workspace and each.allows(scope) for each in self.grants)

    @property
    def is_admin(self) -> bool:
        """True for an admin of the workspace: of all memory stores, and of the API keys, groups and webhooks."""
        return any(each.is_of_workspace and each.allows("admin") for each in self.held)

    def allows_somewhere(self, scope: Scope) -> bool:
        """Return whether the record has a scope in any memory store."""
        return any(each.allows(scope) for each in self.held)

    def sees(self, store_id: str, store_key: str | None) -> bool:
        """Return whether the record has a scope in the memory store of its workspace with this id and this key."""
        return self.only_store in {"", store_id} and any(each.covers(store_id, store_key) for each in self.held)

    def within(self, store_id: str, store_key: str | None) -> KeyRecord | None:
        """Return the rights in one memory store: those of all grants for it together. None if there are none."""
        held = [each for each in self.held if each.covers(store_id, store_key)]
        if not (held and self.sees(store_id, store_key)):
            return None
        reads, writes = (_joined(each.paths for each in held if each.allows(scope)) for scope in ("read", "write"))
        paths = reads if reads is not None else writes or ()
        scopes = tuple(scope for scope in SCOPES if any(scope in each.scopes for each in held))
        return replace(self, scopes=scopes, stores=(store_id,), paths=paths, write_paths=writes, grants=())

    def limited(self, scopes: tuple[Scope, ...], only_store: str, **fields: Any) -> KeyRecord:
        """Return the record with some of its scopes, and in one memory store only if one is named."""
        own, *grants = (replace(each, scopes=tuple(filter(each.allows, scopes))) for each in self.held)
        return replace(self, scopes=own.scopes, grants=tuple(grants), only_store=only_store, **fields)

    @property
    def through_gateway(self) -> KeyRecord:
        """The rights of a model that uses the gateway: it reads and writes where the record has the scope `gateway`."""
        scopes: tuple[Scope, ...] = ("read", "write", "gateway")
        own, *grants = (replace(each, scopes=scopes if each.allows("gateway") else ()) for each in self.held)
        return replace(self, scopes=own.scopes, grants=tuple(grants))

    @property
    def actor(self) -> Actor:
        """Actor to record for changes that are made with this key, unless a request names another actor."""
        named = as_actor(self.principal)
        return Actor("api_key", self.id) if named is None else named

    def acts_as(self, actor: str) -> bool:
        """Return whether a request with this key may name the actor."""
        return any(matches_actor(pattern, actor) for pattern in self.act_as)


def in_patterns(patterns: tuple[str, ...], store_id: str, store_key: str | None) -> bool:
    """Return whether a pattern matches the id or the key of a memory store. Returns True if there are no patterns."""
    return not patterns or any(
        pattern in {store_id, ALL_STORES} or (store_key is not None and matches_actor(pattern, store_key))
        for pattern in patterns
    )


def unmatched(patterns: Iterable[str], infos: Sequence[StoreInfo]) -> list[str]:
    """Return a warning for each pattern that matches none of the memory stores, because it may be a typing error."""
    names = {name for info in infos for name in (info.id, info.key or info.id)}
    return [
        f"no memory store matches {each!r} yet{closest(each, names)}"
        for each in dict.fromkeys(patterns)
        if each != ALL_STORES and not any(in_patterns((each,), info.id, info.key) for info in infos)
    ]


def closest(given: str, names: Iterable[str]) -> str:
    """Return `; did you mean NAME?` for the name, or the pattern such as `team-*`, that is most like the given one."""
    stem, star, rest = given.partition("*")
    known = {name[: len(stem)] + star for name in names} if star and not rest else names
    found = get_close_matches(given, sorted(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _joined(limits: Iterable[tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the patterns of all limits, or () if one of them is no limit. None without any."""
    given = list(limits)
    if not given:
        return None
    return () if () in given else tuple(dict.fromkeys(chain.from_iterable(given)))
