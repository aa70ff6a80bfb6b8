"""Settings page: a form in groups, a preview of what a change would do, and the change itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from retentive.console.rendering import counted, size
from retentive.console.visits import HtmlPage, PageAnswer, Redirect, Visit
from retentive.errors import InvalidInput, RetentiveError
from retentive.server.handlers.stores import retrieve_settings, update_settings
from retentive.store import with_options
from retentive.values.settings import DEFAULTS, SEARCH_LANGUAGES, SENSITIVE_MODES, TRUST_LEVELS, Settings
from retentive.wire.stores import SettingsUpdate

GROUPS: Mapping[str, Sequence[str]] = {
    "Limits": ("max_memory_bytes", "max_memories", "max_store_bytes", "view_chars", "list_rows"),
    "Writing": ("create_overwrites", "read_only", "read_only_paths", "allow_write"),
    "Sensitive values": ("sensitive", "sensitive_likely", "sensitive_kinds", "sensitive_allow"),
    "Review": ("review", "max_proposals", "max_proposals_each"),
    "Trust": ("trust", "quarantine", "hide_unconfirmed"),
    "Retention": ("keep_versions_days", "keep_versions", "expire_after_days", "expire_paths"),
    "Search and audit": ("search_languages", "audit"),
}
UNITS = (("bytes", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30))
CHOICES = {"sensitive": SENSITIVE_MODES, "sensitive_likely": SENSITIVE_MODES, "trust": TRUST_LEVELS}
"""Values of a setting. For a mapping, these are the values that it maps to."""
EXAMPLES = {
    "read_only_paths": "/memories/policies/**",
    "allow_write": "session:*",
    "sensitive_kinds": "email",
    "sensitive_allow": "/memories/fixtures/**",
    "review": "session:*",
    "trust": "session:*",
    "quarantine": "session:s1",
    "hide_unconfirmed": "session:*",
    "expire_paths": "/memories/scratch/**",
    "search_languages": "german",
}
_TEXTS = {each.name: each.metadata["text"] for each in fields(Settings)}
_RETENTION = frozenset(GROUPS["Retention"])


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting in the form.

    `kind` is `switch`, `number`, `size`, `choice`, `list` or `map`. `value` is the text of a number, the chosen text,
    or whether a switch is on; `unit` belongs to it. `rows` has the entries of a list or a map, as pairs of texts.
    """

    name: str
    kind: str
    value: str = ""
    unit: str = ""
    rows: Sequence[tuple[str, str]] = ()

    @property
    def label(self) -> str:
        """Name for people."""
        return self.name.removesuffix("_bytes").removesuffix("_days").replace("_", " ").capitalize()

    @property
    def text(self) -> str:
        """What the setting means."""
        return str(_TEXTS[self.name])

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Rows of the form: those of the setting, and an empty one."""
        return [*self.rows, ("", "")]

    @property
    def choices(self) -> Sequence[str]:
        """Values to choose from."""
        return CHOICES.get(self.name, SEARCH_LANGUAGES if self.name == "search_languages" else ())

    @property
    def example(self) -> str:
        """Example of an entry."""
        return EXAMPLES.get(self.name, "")

    @property
    def default(self) -> str:
        """Default value, for people."""
        return shown(self.name, getattr(DEFAULTS, self.name))


def show_settings(visit: Visit) -> PageAnswer:
    """Show the settings: as a form, or as a table if the key may not change them."""
    present = _present(visit)
    return _page(visit, present, [_field_of(name, value) for name, value in present.items()])


def change_settings(visit: Visit) -> PageAnswer:
    """Show the form again with another row, or preview the typed settings, or save them.

    Nothing is saved that was not shown in a preview, and nothing if the settings were changed meanwhile.
    """
    present, typed = _present(visit), _typed(visit)
    removed, _, row = visit.given("remove").rpartition(".")
    if removed:
        typed = [_without(each, int(row)) if each.name == removed and row.isdecimal() else each for each in typed]
    if removed or visit.given("step") == "edit":
        return _page(visit, present, typed)
    try:
        values = {each.name: _value_of(each) for each in typed}
        new = _plain(DEFAULTS.changed({name: value for name, value in values.items() if value is not None}))
        changes = {name: values[name] for name in new if new[name] != present[name]}
        if visit.given("step") != "save" or visit.given("seen") != _digest(present, new):
            return _page(visit, present, typed, new=new, is_late=visit.given("step") == "save")
        visit.check_key()
        update_settings(visit.call(), SettingsUpdate.read(changes))
    except RetentiveError as error:
        return _page(visit, present, typed, problem=str(error))
    return Redirect(visit.url("settings"))


def _present(visit: Visit) -> dict[str, object]:
    return _plain(retrieve_settings(visit.call()).value())


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
) -> HtmlPage:
    by_name = {each.name: each for each in typed}
    changed = {name: value for name, value in (new or {}).items() if value != present[name]}
    values = {
        "groups": {title: [by_name[name] for name in names] for title, names in GROUPS.items()},
        "present": {name: shown(name, value) for name, value in present.items()},
        "own": {name for name, value in present.items() if value != _plain(DEFAULTS)[name]},
        "is_preview": new is not None,
        "changes": [(by_name[name], shown(name, present[name]), shown(name, value)) for name, value in changed.items()],
        "effects": _effects(visit, changed),
        "seen": "" if new is None else _digest(present, new),
        "units": UNITS,
        "is_late": is_late,
        "problem": problem,
        "area": "settings",
    }
    return HtmlPage("settings.html", values, 400 if problem else 409 if is_late else 200, title="Settings")


def shown(name: str, value: object) -> str:
    """Return the value of a setting, for people."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        number, unit = _in_unit(value) if name.endswith("_bytes") else (f"{value:,}", "")
        return f"{number} {unit or ('days' if name.endswith('_days') else '')}".strip()
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_joined(each)}" for key, each in value.items()) or "none"
    return _joined(value) or "none"


def _joined(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _in_unit(value: int) -> tuple[str, str]:
    name, factor = next((unit for unit in reversed(UNITS) if value and value % unit[1] == 0), UNITS[0])
    return f"{value // factor:,}", name


def _field_of(name: str, value: object) -> SettingField:
    if isinstance(value, bool):
        return SettingField(name, "switch", "on" if value else "")
    if isinstance(value, int) and name.endswith("_bytes"):
        return SettingField(name, "size", *_in_unit(value))
    if isinstance(value, int):
        return SettingField(name, "number", f"{value:,}", "days" if name.endswith("_days") else "")
    if isinstance(value, Mapping):
        rows = [(key, " ".join(each) if isinstance(each, list) else str(each)) for key, each in value.items()]
        return SettingField(name, "map", rows=rows)
    if isinstance(value, str):
        return SettingField(name, "choice", value)
    assert isinstance(value, list)
    return SettingField(name, "list", rows=[(each, "") for each in value])


def _typed(visit: Visit) -> list[SettingField]:
    """Return the fields as the person typed them. Empty rows of lists and maps are left out."""
    found = []
    for name in (each for names in GROUPS.values() for each in names):
        field = _field_of(name, _plain(DEFAULTS)[name])
        keys = [each.strip() for each in visit.form.get(name, ())]
        if field.kind in {"list", "map"}:
            values = [each.strip() for each in visit.form.get(f"{name}.value", ())] + [""] * len(keys)
            rows = [(key, value) for key, value in zip(keys, values, strict=False) if key]
            found.append(SettingField(name, field.kind, rows=rows))
        else:
            unit = visit.given(f"{name}.unit") or field.unit
            found.append(SettingField(name, field.kind, visit.given(name).strip(), unit))
    return found


def _without(field: SettingField, row: int) -> SettingField:
    return SettingField(field.name, field.kind, rows=[each for at, each in enumerate(field.rows) if at != row])


def _value_of(field: SettingField) -> object:
    """Return the value of a field. None stands for the default. Raises `InvalidInput` for what is not a number."""
    if field.kind == "switch":
        return field.value == "on"
    if field.kind == "list":
        return [key for key, _ in field.rows]
    if field.name == "allow_write":
        return {key: value.split() for key, value in field.rows}
    if field.name == "expire_paths":
        return {key: _number(field.name, value) for key, value in field.rows}
    if field.kind == "map":
        return dict(field.rows)
    if field.kind == "choice" or not field.value:
        return field.value or None
    return _number(field.name, field.value) * (dict(UNITS).get(field.unit, 1) if field.kind == "size" else 1)


def _number(name: str, text: str) -> int:
    digits = text.replace(",", "")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 15):
        raise InvalidInput(f"{name}: {text!r} is not a number")
    return int(digits)


def _effects(visit: Visit, changed: Mapping[str, object]) -> list[str]:
    """Return sentences about what changed settings would do to the memories that exist."""
    found, info = [], visit.info
    for name, used, text in (
        ("max_memories", info.memories, counted(info.memories, "memory", "memories")),
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
        expired = counted(len(swept.expired), "memory", "memories")
        pruned = counted(swept.versions_pruned, "old version")
        found.append(f"The next sweep deletes {expired}, which can be restored, and prunes {pruned} for good.")
    return found


def _digest(present: Mapping[str, object], new: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps([present, new], sort_keys=True).encode()).hexdigest()
