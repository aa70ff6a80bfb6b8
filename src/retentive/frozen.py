"""Frozen dataclasses that are quick to define and to create.

`dataclass` does the same as `dataclasses.dataclass`, which compiles six methods for each frozen class. A command
imports some fifty such classes, and compiling their methods took a third of the time to start the command. Here only
`__init__` is compiled; all classes share the other methods. This `__init__` sets slots directly, and takes about 60 %
of the time that the `__init__` of the standard library takes. Functions of the standard library such as `fields`,
`replace` and `asdict` work with these classes, and other dataclasses can be derived from them.

There are two differences. Attributes of an object cannot be assigned, even if they are not fields. Options and methods
that this library does not need, such as `order` and a custom `__init__`, raise `TypeError`.
"""

from __future__ import annotations

import abc
import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


class _FromFactory:
    """Default of an `__init__` argument. It means that a `default_factory` creates the value."""

    def __repr__(self) -> str:
        return "<factory>"


_FROM_FACTORY = _FromFactory()
_REFUSED = {"__setattr__", "__delattr__", "__getstate__", "__setstate__"}


def _dataclass(cls: Any = None, /, *, frozen: bool = False, **options: bool) -> Any:
    """Do the same as `dataclasses.dataclass`. A class that is not frozen is passed to that function."""
    if cls is None:
        return partial(_dataclass, frozen=frozen, **options)
    if not frozen:
        return dataclasses.dataclass(cls, **options)
    init, shows, eq = (options.pop(name, True) for name in ("init", "repr", "eq"))
    own = dict(cls.__dict__)
    if options.get("order") or own.keys() & (_REFUSED | ({"__init__"} if init else set())):
        raise TypeError("frozen.dataclass does not support this class; use dataclasses.dataclass")
    is_derived = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))  # the standard library compares with the bases
    made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, frozen=is_derived, **options)
    params = made.__dataclass_params__
    params.init, params.repr, params.eq, params.frozen = init, shows, eq, True
    if init:
        made.__init__ = _init(made)
    if shows and "__repr__" not in own:
        made._shown = [each.name for each in fields(made) if each.repr]  # noqa: SLF001 - for `_repr`
        made.__repr__ = _repr
    if eq:
        _add_comparison(made, own)
    made.__setattr__, made.__delattr__ = _setattr, _delattr
    if options.get("slots"):
        made.__getstate__, made.__setstate__ = _getstate, _setstate
    return abc.update_abstractmethods(made)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _add_comparison(made: Any, own: dict[str, object]) -> None:
    """Add `__eq__` and `__hash__` to a class, as the standard library does. `own` has the attributes of the class."""
    if any(each.hash is not None for each in fields(made)):
        raise TypeError("frozen.dataclass does not support `hash` in fields; use dataclasses.dataclass")
    names = [each.name for each in fields(made) if each.compare]
    # With one name, `attrgetter` would return the value itself, not a tuple.
    made._compared = staticmethod(attrgetter(*names, *names[:1]) if names else _nothing)  # noqa: SLF001 - for `_eq`
    made.__eq__ = own.get("__eq__", _eq)
    if "__hash__" not in own or ("__eq__" in own and own["__hash__"] is None):  # Python sets None beside `__eq__`
        made.__hash__ = _hash


def _nothing(_: object) -> tuple[()]:
    return ()


def _init(made: Any) -> Callable[..., None]:
    """Compile the method `__init__` of a class, with the globals of its module."""
    names: dict[str, object] = {"_FROM_FACTORY": _FROM_FACTORY}
    arguments: dict[bool, list[str]] = {False: ["self"], True: []}
    body: list[str] = []
    for each in fields(made):
        default = _default_in(names, each)
        if each.init:
            arguments[each.kw_only is True].append(each.name if default is None else f"{each.name}={default}")
        if each.init or default is not None:
            body.append(_setter_in(names, made, each.name).format(_value(each, default)))
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    star = ["*"] if arguments[True] else []
    header = ", ".join((*arguments[False], *star, *arguments[True]))
    text = f"def __init__({header}):\n  " + ("\n  ".join(body) or "pass")
    found: dict[str, Any] = {}
    module = sys.modules.get(made.__module__)
    maker = f"def _make({', '.join(names)}):\n {text}\n return __init__"
    # The text has only names of fields, as in the standard library's own decorator.
    exec(maker, {} if module is None else vars(module), found)  # noqa: S102  # nosec B102
    init = found["_make"](**names)
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in fields(made) if each.init} | {"return": None}
    return init  # type: ignore[no-any-return]


def _default_in(names: dict[str, object], field: Field[Any]) -> str | None:
    """Add the default of a field to the names that `__init__` can use, and return its name there.

    Returns None if the field has no default.
    """
    if field.default_factory is not MISSING:
        names[f"_new_{field.name}"] = field.default_factory
        return "_FROM_FACTORY"
    if field.default is not MISSING:
        names[f"_default_{field.name}"] = field.default
        return f"_default_{field.name}"
    return None


def _setter_in(names: dict[str, object], made: Any, name: str) -> str:
    """Return the statement of `__init__` that sets an attribute, with `{}` for the value.

    The setter of a slot takes half the time of `object.__setattr__`.
    """
    slot = getattr(made, name, None)
    if isinstance(slot, MemberDescriptorType):
        names[f"_set_{name}"] = slot.__set__
        return f"_set_{name}(self, {{}})"
    names["_set"] = object.__setattr__
    return f"_set(self, {name!r}, {{}})"


def _value(field: Field[Any], default: str | None) -> str:
    """Return the expression for the value of a field in `__init__`."""
    if default != "_FROM_FACTORY":
        return field.name if field.init or default is None else default
    new = f"_new_{field.name}()"
    return f"{new} if {field.name} is _FROM_FACTORY else {field.name}" if field.init else new


# The methods that all classes share.


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._compared(self) == self._compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name in self._shown)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _setstate(self: Any, state: list[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
