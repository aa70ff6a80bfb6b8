"""What the public documentation leaves open, each as a named choice with a default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How a scripted Claude answers where the documentation of the API is silent, or differs from model to model.

    Every field is described in docs/testing-your-agent.md. A number of turns that is None means all.
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
    warning: str = "The context is close to being cleared. Save what is still needed to memory now."

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Choices:
        """The choices in a JSON object; raises `ValueError` for a name that is none or a value of another type."""
        names = [spec.name for spec in fields(cls)]
        default = cls()
        for name, value in given.items():
            if name not in names:
                raise ValueError(f"unknown choice {name!r}, expected one of {', '.join(names)}")
            if not _fits(getattr(default, name), value, name):
                raise ValueError(f"choice {name!r}: {value!r} is not of the kind of {getattr(default, name)!r}")
        return cls(**given)  # type: ignore[arg-type] # each was compared with its default above


def _fits(default: object, value: object, name: str) -> bool:
    if name.startswith("thinking_turns"):
        return value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0)
    if name == "warn_at":
        return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
    if isinstance(default, Mapping):
        return isinstance(value, Mapping)
    return isinstance(value, type(default))
