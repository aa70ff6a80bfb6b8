"""Checks the types of the fields of a request, by comparing them with the types of the installed `anthropic` SDK.

The types of the SDK are generated from the specification of the API. They describe every field, block, tool and edit
that the SDK can send. A path in an error has the form that the API uses. If an object can have several variants, the
`type` of its variant follows in the path, as in `messages.0.content.1.tool_use.id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Literal, Required, Union, get_args, get_origin

import typing_extensions
from anthropic.types.anthropic_beta_param import AnthropicBetaParam
from anthropic.types.beta.beta_json_output_format_param import BetaJSONOutputFormatParam
from anthropic.types.beta.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from anthropic.types.model_param import ModelParam

from retentive.testing.scripted_claude.rules import refusal, refuse_if

_ID, _NAME = "^[a-zA-Z0-9_-]+$", "^[a-zA-Z0-9_-]{1,128}$"
_BLOCK = "messages.*.content.*"
_EDIT = "context_management.edits.*"
# Source: API reference of Messages; "Context editing"; "Compaction"; "Skills".
LIMITS: Mapping[str, Sequence[tuple[str, object]]] = {
    "model": [("min_length", 1), ("max_length", 256)],
    "max_tokens": [("at_least", 0)],
    "messages": [("max_items", 100_000)],
    "temperature": [("at_least", 0), ("at_most", 1)],
    "top_p": [("at_least", 0), ("at_most", 1)],
    "top_k": [("at_least", 0)],
    "metadata.user_id": [("max_length", 512)],
    "thinking.enabled.budget_tokens": [("at_least", 1024)],
    "container.skills": [("max_items", 8)],
    "mcp_servers": [("max_items", 20)],
    "tools.*.custom.name": [("min_length", 1), ("max_length", 128), ("pattern", _NAME)],
    "tools.*.max_uses": [("at_least", 1)],
    f"{_BLOCK}.tool_use.id": [("pattern", _ID)],
    f"{_BLOCK}.tool_use.name": [("min_length", 1), ("max_length", 200)],
    f"{_BLOCK}.tool_result.tool_use_id": [("pattern", _ID)],
    f"{_BLOCK}.server_tool_use.id": [("pattern", "^srvtoolu_[a-zA-Z0-9_]+$")],
    f"{_BLOCK}.compaction.content": [("min_length", 1)],
    f"{_EDIT}.clear_tool_uses_20250919.trigger.input_tokens.value": [("at_least", 1)],
    f"{_EDIT}.clear_tool_uses_20250919.trigger.tool_uses.value": [("at_least", 1)],
    f"{_EDIT}.clear_tool_uses_20250919.keep.value": [("at_least", 0)],
    f"{_EDIT}.clear_tool_uses_20250919.clear_at_least.value": [("at_least", 0)],
    f"{_EDIT}.clear_thinking_20251015.keep.thinking_turns.value": [("at_least", 1)],
    f"{_EDIT}.compact_20260112.trigger.value": [("at_least", 50_000)],
}
CONTEXT_BETA, COMPACT_BETA = "context-management-2025-06-27", "compact-2026-01-12"
THREADS_BETA = "message-threads-2026-08-12"
_MCP = ("mcp-client-2025-11-20", "mcp-client-2025-04-04", "mcp-client-2026-09-15")
_COMPUTER = ("computer-use-2025-01-24", "computer-use-2024-10-22", "computer-use-2025-11-24")
_TOOL_CHANGES = ("mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15")
# Fields and types of objects that the API accepts only in requests with one of these betas, the values of the header
# `anthropic-beta`. Source: the documentation of each feature.
BETAS: Mapping[str, Sequence[str]] = {
    "context_management": (CONTEXT_BETA, COMPACT_BETA),
    "compaction": (COMPACT_BETA, "compact-2026-09-04"),
    "compact_20260112": (COMPACT_BETA,),
    "clear_tool_uses_20250919": (CONTEXT_BETA,),
    "clear_thinking_20251015": (CONTEXT_BETA,),
    "thread": (THREADS_BETA,),
    "output_format": ("structured-outputs-2025-11-13",),
    "billing_policy": ("user-profiles-billing-2026-10-01",),
    "fallbacks": ("server-side-fallback-2026-06-01", "server-side-fallback-2026-07-01"),
    "fallback_credit_token": ("fallback-credit-2026-06-01", "fallback-credit-2026-07-01"),
    "advisor_20260301": ("advisor-tool-2026-03-01",),
    **dict.fromkeys(("mcp_servers", "mcp_toolset", "mcp_tool_use", "mcp_tool_result", "mcp_tool_listing"), _MCP),
    **dict.fromkeys(("computer_20241022", "computer_20250124", "computer_20251124"), _COMPUTER),
    **dict.fromkeys(("bash_20241022", "text_editor_20241022"), _COMPUTER),
    **dict.fromkeys(("tool_addition", "tool_removal"), _TOOL_CHANGES),
}
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _values(kind: object) -> tuple[str, ...]:
    """Return the values of all `Literal` types that occur in a type."""
    if get_origin(kind) is Literal:
        return tuple(str(value) for value in get_args(kind))
    return tuple(value for part in get_args(kind) for value in _values(part))


KNOWN_BETAS = frozenset(_values(AnthropicBetaParam))
KNOWN_MODELS = frozenset(_values(ModelParam))


class Shape:
    """Compares one request with the types of the SDK.

    For a field that the SDK does not know, an error is raised if `strict` is true. If `strict` is false, the same
    error is only added to `unknown`.
    """

    def __init__(self, betas: frozenset[str], *, strict: bool) -> None:
        self._betas = betas
        self._strict = strict
        self.unknown: list[str] = []

    def check_request(self, body: Mapping[str, object], *, count: bool) -> None:
        """Check the body of `POST /v1/messages`, or of `count_tokens` if `count` is true. Raises `ApiError`."""
        kind = MessageCountTokensParams if count else MessageCreateParamsStreaming
        known = {name: part for name, part in _fields(kind).items() if name not in _HEADERS}
        known["output_format"] = (BetaJSONOutputFormatParam, False)
        known.update(stream=(bool, False), temperature=(float, False), top_p=(float, False), top_k=(int, False))
        self._fields(known, body, "")

    def _fields(self, known: Mapping[str, tuple[object, bool]], value: Mapping[str, object], where: str) -> None:
        for name, (part, required) in known.items():
            path = f"{where}.{name}" if where else name
            if name in value:
                refuse_if(not where and not self._allowed(name), "extra", path)
                self.check(part, value[name], path)
            else:
                refuse_if(required, "required", path)
        for name in [name for name in value if name not in known]:
            path = f"{where}.{name}" if where else name
            refuse_if(self._strict, "extra", path)
            self.unknown.append(f"{path}: Extra inputs are not permitted")

    def check(self, kind: object, value: object, where: str) -> None:
        """Check that a value has the type `kind` and is within its limits. `where` is its path. Raises `ApiError`."""
        members = _members(kind)
        if value is None and type(None) in members:
            return
        limits = LIMITS.get(re.sub(r"\.\d+(?=\.|$)", ".*", where), ())
        for rule, bound in limits:
            if isinstance(value, list) and isinstance(bound, int) and len(value) > bound:
                raise refusal(rule, where, bound=bound)
        items = [item for item in map(_item, members) if item is not None] if isinstance(value, list) else []
        if items and isinstance(value, list):
            for number, element in enumerate(value):
                self.check(items[0], element, f"{where}.{number}")
        elif any(_accepts(member, value) for member in _plain(kind)):
            pass
        elif isinstance(value, dict) and (variants := _variants(kind)):
            self._variant(variants, value, where)
        else:
            raise _mismatch(members, where)
        for rule, bound in limits:
            refuse_if(not _within(rule, bound, value), rule, where, bound=bound)

    def _variant(self, variants: Sequence[object], value: Mapping[str, object], where: str) -> None:
        """Check an object that may have one of several types.

        The field `type` of the object selects the type to compare with. For a message, the field `role` selects it.
        """
        if len(variants) == 1 and not where.endswith("cache_control"):
            self._fields(_fields(variants[0]), value, where)
            return
        known = {_tag(variant): variant for variant in variants}
        if set(known) == {"user", "assistant", "system"}:
            role = str(value.get("role"))
            refuse_if(role not in known, "literal", f"{where}.role", value="'user', 'assistant' or 'system'")
            self._fields(_fields(known[role]), value, where)
            return
        tag = value.get("type") or ("custom" if "custom" in known else None)
        refuse_if(tag is None, "required", f"{where}.type")
        expected = [name for name in known if self._allowed(name)]
        refuse_if(tag not in expected, "tag", where, value=tag, expected=", ".join(f"'{name}'" for name in expected))
        self._fields(_fields(known[str(tag)]), value, f"{where}.{tag}")

    def _allowed(self, name: str) -> bool:
        return name not in BETAS or not self._betas.isdisjoint(BETAS[name])


_HEADERS = ("betas", "user_profile_id", "workspace_id")  # arguments that the SDK sends as headers, not in the body


@cache
def _fields(kind: object) -> dict[str, tuple[object, bool]]:
    """Return the fields of a TypedDict: for each name, the type of the field and whether it is required."""
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    origins: dict[str, object] = {name: get_origin(hint) for name, hint in hints.items()}
    return {name: (hint, origins[name] is Required) for name, hint in hints.items()}


@cache
def _members(kind: object) -> tuple[object, ...]:
    """Return the members of a union, without wrappers such as `Required`. Classes of responses are left out."""
    if get_origin(kind) in (Required, Annotated):
        return _members(get_args(kind)[0])
    if get_origin(kind) not in (Union, UnionType):
        return () if hasattr(kind, "model_fields") else (kind,)
    return tuple(dict.fromkeys(member for part in get_args(kind) for member in _members(part)))


@cache
def _variants(kind: object) -> tuple[object, ...]:
    return tuple(member for member in _members(kind) if typing_extensions.is_typeddict(member))


@cache
def _plain(kind: object) -> tuple[object, ...]:
    return tuple(member for member in _members(kind) if not typing_extensions.is_typeddict(member))


def _item(kind: object) -> object | None:
    """Return the type of the elements of a list type. Returns None for other types."""
    is_list = get_origin(kind) in (list, Iterable, Sequence) or getattr(kind, "__name__", "") == "SequenceNotStr"
    return get_args(kind)[0] if is_list else None


@cache
def _tag(variant: object) -> str:
    fields = _fields(variant)
    kind = fields.get("type", fields.get("role", (None, False)))[0]
    return "".join(_values(kind)[:1])


def _accepts(member: object, value: object) -> bool:
    if get_origin(member) is Literal:
        return value in get_args(member)
    if member is object:
        return True
    if get_origin(member) in (dict, Mapping):
        return isinstance(value, dict)
    if not isinstance(member, type):
        return False
    if isinstance(value, bool):
        return member is bool
    return isinstance(value, (int, float) if member is float else member)


def _mismatch(members: Sequence[object], where: str) -> Exception:
    if any(_item(member) is not None for member in members):
        return refusal("array", where)
    if any(get_origin(member) is dict or typing_extensions.is_typeddict(member) for member in members):
        return refusal("object", where)
    values = [f"'{value}'" for member in members for value in _values(member)]
    scalars = [member for member in members if isinstance(member, type) and member in _WORDS]
    if values and not scalars:
        return refusal("literal", where, value=" or ".join(filter(None, [", ".join(values[:-1]), values[-1]])))
    return refusal(_WORDS[scalars[0]], where)


def _within(rule: str, bound: object, value: object) -> bool:
    """Return whether a value is within a limit. A limit for another type of value is ignored."""
    match rule, bound, value:
        case "at_least", int(), int() | float():
            return value >= bound
        case "at_most", int(), int() | float():
            return value <= bound
        case "min_length", int(), str():
            return len(value) >= bound
        case "max_length", int(), str():
            return len(value) <= bound
        case "pattern", str(), str():
            return re.fullmatch(bound, value) is not None
    return True
