"""Options for behaviour that the public API documentation does not define."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Behaviour of the scripted Claude that the API documentation does not define, or that differs between models.

    docs/testing-your-agent.md describes every field. If a number of turns is None, all turns are meant.
    """

    placeholder: str = "[tool result cleared]"
    cleared_input: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    short_results_are_cleared: bool = True
    excluded_use_up_keep: bool = False
    excluded_count_for_trigger: bool = True
    thinking_turns: int | None = 1
    thinking_turns_without_edit: int | None = None
    thinking_turn_is_a_message: bool = False
    thinking_must_be_enabled: bool = False
    repeated_edits: bool = False
    compacts_when_reached: bool = True
    warn_at: float | None = 0.8
    warn_without_memory: bool = False
    warn_while_clearing: bool = False
    warning: str = "The context is close to being cleared. Save anything you still need to memory now."

    @classmethod
    def parse(cls, data: Mapping[str, object]) -> Choices:
        """Read choices from a JSON object. Raises `ValueError` for an unknown name or a value of the wrong type."""
        names = [spec.name for spec in fields(cls)]
        default = cls()
        for name, value in data.items():
            if name not in names:
                raise ValueError(f"unknown choice {name!r}; expected one of {', '.join(names)}")
            if not _has_valid_type(getattr(default, name), value, name):
                raise ValueError(
                    f"choice {name!r}: {value!r} has the wrong type; the default is {getattr(default, name)!r}"
                )
        return cls(**data)  # type: ignore[arg-type] # the types were checked above


def _has_valid_type(default: object, value: object, name: str) -> bool:
    if name.startswith("thinking_turns"):
        return value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0)
    if name == "warn_at":
        return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    if isinstance(default, Mapping):
        return isinstance(value, Mapping)
    return isinstance(value, type(default))
