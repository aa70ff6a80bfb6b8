"""Settings page: a form in groups, a preview of what a change would do, and the change itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from starlette.responses import Response

from retentive.console.rendering import size
from retentive.console.visits import Visit, digest, page, redirect
from retentive.errors import InvalidInput, RetentiveError
from retentive.server.handlers.stores import retrieve_settings, update_settings
from retentive.store import with_options
from retentive.values.listing import counted
from retentive.values.settings import (
    DEFAULTS,
    REVIEW_TIERS,
    SEARCH_LANGUAGES,
    SENSITIVE_MODES,
    TRUST_LEVELS,
    Settings,
)
from retentive.wire.stores import SettingsUpdate

GROUPS: Mapping[str, Sequence[str]] = {
    "Limits": ("max_memory_bytes", "max_memories", "max_store_bytes", "view_chars", "list_rows"),
    "Writing": ("create_overwrites", "read_only", "read_only_paths", "allow_write"),
    "Sensitive values": ("sensitive", "sensitive_likely", "sensitive_kinds", "sensitive_allow"),
    "Review": ("review", "max_proposals", "max_proposals_each", "proposals_expire_days"),
    "Trust": ("trust", "quarantine", "hide_unconfirmed"),
    "Retention": ("keep_versions_days", "keep_versions", "expire_after_days", "expire_paths"),
    "Search and audit": ("search_languages", "audit"),
}
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_BY_LETTER = {name[0].lower(): factor for name, factor in UNITS.items()}
_NUMBER = re.compile(r"([0-9]{1,15})\s*([a-z]*)", re.ASCII)
CHOICES = {
    "sensitive": SENSITIVE_MODES,
    "sensitive_likely": SENSITIVE_MODES,
    "review": REVIEW_TIERS,
    "trust": TRUST_LEVELS,
}
"""Values of a setting. For a mapping, these are the values that it maps to."""
EXAMPLES = {
    "read_only_paths": "/memories/policies/**",
    "sensitive_kinds": "email",
    "sensitive_allow": "/memories/fixtures/**",
    "expire_paths": "/memories/scratch/**",
    "search_languages": SEARCH_LANGUAGES[0],
}
_RETENTION = frozenset(GROUPS["Retention"])


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting in the form.

    `kind` is `switch`, `number`, `choice`, `list` or `map`. `value` is a number with its unit, the chosen text, or `on`
    for a switch. `rows` has the entries of a list or a map, as pairs of texts.
    """

    name: str
    kind: str
    value: str = ""
    rows: Sequence[tuple[str, str]] = ()

    @property
    def label(self) -> str:
        """Name for people."""
        return self.name.removesuffix("_bytes").removesuffix("_days").replace("_", " ").capitalize()

    @property
    def shown(self) -> str:
        """Value for people."""
        rows = [f"{key}: {value}" if value else key for key, value in self.rows]
        empty = "off" if self.kind == "switch" else "none"
        return ("; " if self.kind == "map" else ", ").join(rows) or self.value or empty


@page("GET", "settings", "read", "settings")
@page("POST", "settings", "admin", "settings")
def change_settings(visit: Visit) -> Response:
    """Show the settings: as a form, or as a table if the key may not change them.

    With POST, show the form again with another row, or preview the typed settings, or save them. Nothing is saved that
    was not shown in a preview, and nothing if the settings were changed meanwhile.
    """
    present, removed = _plain(retrieve_settings(visit.call()).value()), visit.given("remove")
    if not visit.is_post:
        return _page(visit, present, [_field_of(name, value) for name, value in present.items()])
    typed = [_typed(visit, name, removed) for name in _plain(DEFAULTS)]
    if removed or visit.given("step") == "edit":
        return _page(visit, present, typed)
    is_save = visit.given("step") == "save"
    try:
        values = {each.name: _value_of(each) for each in typed}
        new = _plain(DEFAULTS.changed({name: value for name, value in values.items() if value is not None}))
        if not is_save or visit.given("seen") != digest([present, new]):
            return _page(visit, present, typed, new=new, is_late=is_save)
        visit.check_key()
        changes = {name: values[name] for name in new if new[name] != present[name]}
        update_settings(visit.call(), SettingsUpdate.read(changes))
    except RetentiveError as error:
        return _page(visit, present, typed, problem=str(error))
    return redirect(visit.url("settings"))


def _plain(settings: Settings) -> dict[str, object]:
    found: dict[str, object] = json.loads(json.dumps(asdict(settings)))
    return {name: found[name] for names in GROUPS.values() for name in names}


def _page(
    visit: Visit,
    present: Mapping[str, object],
    typed: Iterable[SettingField],
    *,
    new: Mapping[str, object] | None = None,
    is_late: bool = False,
    problem: str = "",
) -> Response:
    by_name, defaults = {each.name: each for each in typed}, _plain(DEFAULTS)
    changed = {name: value for name, value in (new or {}).items() if value != present[name]}
    now = {name: _field_of(name, value).shown for name, value in present.items()}
    return visit.page(
        "settings.html",
        "Settings",
        400 if problem else 409 if is_late else 200,
        groups={title: [by_name[name] for name in names] for title, names in GROUPS.items()},
        present=now,
        defaults={name: _field_of(name, value).shown for name, value in defaults.items()},
        own={name for name, value in present.items() if value != defaults[name]},
        texts={each.name: each.metadata["text"] for each in fields(Settings)},
        choices=CHOICES,
        examples=EXAMPLES,
        is_preview=new is not None,
        changes=[(by_name[name], now[name], _field_of(name, value).shown) for name, value in changed.items()],
        effects=_effects(visit, changed),
        seen="" if new is None else digest([present, new]),
        is_late=is_late,
        problem=problem,
    )


def _field_of(name: str, value: object) -> SettingField:
    if isinstance(value, bool):
        return SettingField(name, "switch", "on" if value else "")
    if isinstance(value, int) and name.endswith("_bytes"):
        unit = next((each for each in reversed(UNITS) if value and value % UNITS[each] == 0), "bytes")
        return SettingField(name, "number", f"{value // UNITS[unit]:,} {unit}")
    if isinstance(value, int):
        return SettingField(name, "number", f"{value:,}" + (" days" if name.endswith("_days") else ""))
    if isinstance(value, Mapping):
        rows = [(key, " ".join(each) if isinstance(each, list) else str(each)) for key, each in value.items()]
        return SettingField(name, "map", rows=rows)
    if isinstance(value, list):
        return SettingField(name, "list", rows=[(each, "") for each in value])
    return SettingField(name, "choice", str(value))


def _typed(visit: Visit, name: str, removed: str) -> SettingField:
    """Return a field as the person typed it, without empty rows and the row `removed`, such as `review.0`."""
    field = _field_of(name, _plain(DEFAULTS)[name])
    if field.kind not in {"list", "map"}:
        return replace(field, value=visit.given(name).strip())
    keys = [each.strip() for each in visit.form.get(name, ())]
    values = [each.strip() for each in visit.form.get(f"{name}.value", ())] + [""] * len(keys)
    rows = [(key, value) for key, value in zip(keys, values, strict=False) if key]
    return replace(field, rows=[row for at, row in enumerate(rows) if removed != f"{name}.{at}"])


def _value_of(field: SettingField) -> object:
    """Return the value of a field. None stands for the default. Raises `InvalidInput` for what is not a number."""
    if field.kind == "switch":
        return field.value == "on"
    if field.kind == "list":
        return [key for key, _ in field.rows]
    if field.kind == "map":
        if field.name == "expire_paths":
            return {key: _number(field.name, value) for key, value in field.rows}
        return {key: value.split() if field.name == "allow_write" else value for key, value in field.rows}
    return field.value or None if field.kind == "choice" else _number(field.name, field.value) if field.value else None


def _number(name: str, text: str) -> int:
    """Parse a number, in bytes with a unit such as `MiB` or `m`, and in days with or without that word."""
    found, is_size = _NUMBER.fullmatch(text.replace(",", "").lower()), name.endswith("_bytes")
    unit = "" if found is None else found[2]
    if found is None or not (not unit or (unit[0] in _BY_LETTER if is_size else unit in {"d", "day", "days"})):
        raise InvalidInput(f"{name}: {text!r} is not a number{' of bytes, such as 100 KiB' if is_size else ''}")
    return int(found[1]) * (_BY_LETTER[unit[0]] if is_size and unit else 1)


def _effects(visit: Visit, changed: Mapping[str, object]) -> list[str]:
    """Return sentences about what changed settings would do to the memories that exist."""
    found, info = [], visit.info
    for name, used, text in (
        ("max_memories", info.memories, counted(info.memories, "memory")),
        ("max_store_bytes", info.size_bytes, size(info.size_bytes)),
    ):
        limit = changed.get(name)
        if isinstance(limit, int) and 0 < limit < used:
            found.append(f"The store has {text}, more than the limit: they are kept, but can only shrink.")
    if changed.get("read_only"):
        found.append("Nobody can change a memory, an administrator included.")
    if _RETENTION & changed.keys():
        pinned = with_options(visit.store, pins={name: value for name, value in changed.items() if name in _RETENTION})
        swept = pinned.sweep(dry_run=True)
        expired = counted(len(swept.expired), "memory")
        pruned = counted(swept.versions_pruned, "old version")
        found.append(f"The next sweep deletes {expired}, which can be restored, and prunes {pruned} for good.")
    return found
