"""Frozen dataclasses behave like those of the standard library, and all frozen classes of the library use them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.frozen import dataclass
from retentive.values.records import Actor
from support.modules import ROOT, modules

T = TypeVar("T")


SLOW = r"^ *from dataclasses import .*\bdataclass\b|@dataclasses\.dataclass"


def family(decorator: Callable[..., Any]) -> dict[str, Any]:
    """Return classes that use every option, made with one of the two decorators."""

    @decorator(frozen=True, slots=True)
    class Plain:
        """Fields with and without defaults, and one of the class."""

        a: int
        b: str = "b"
        c: dict[str, int] = field(default_factory=dict)
        kind: ClassVar[str] = "plain"

    @decorator(frozen=True, slots=True)
    class Derived(Plain):
        """More fields, in the order of the bases."""

        d: int = field(default=4, compare=False)
        e: str = field(default="secret", repr=False)

    @decorator(frozen=True, slots=True, kw_only=True)
    class Named:
        """Keyword arguments only, and a check of the values."""

        a: int = 1
        twice: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.a)

    @decorator(frozen=True)
    class Mixed(Generic[T]):
        """A keyword argument after others, and no slots."""

        a: T
        b: list[int] = field(default_factory=list, compare=False)
        c: int = field(default=0, kw_only=True)

    @decorator(frozen=True, slots=True, eq=False, repr=False)
    class Bare:
        """Compared by identity."""

        a: int = 1

    @decorator(frozen=True, slots=True)
    class Own:
        """Methods of the class are kept."""

        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and abs(self.a) == abs(other.a)

        def __hash__(self) -> int:
            return abs(self.a)

        def __repr__(self) -> str:
            return "own"

    @decorator(frozen=True, slots=True)
    class Near:  # noqa: PLW1641 - the decorator adds the method
        """Has an `__eq__` of its own, and gets a `__hash__`."""

        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and abs(self.a - other.a) <= 1

    @decorator(frozen=True, slots=True)
    class Empty:
        """No fields."""

    return {each.__name__: each for each in (Plain, Derived, Named, Mixed, Bare, Own, Near, Empty)}


OURS, THEIRS = family(dataclass), family(dataclasses.dataclass)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", (1,), {}),
    ("Plain", (1, "x", {"k": 2}), {}),
    ("Plain", (), {"a": 1, "c": {}}),
    ("Derived", (1, "x"), {"d": 9, "e": "f"}),
    ("Derived", (1, "x"), {"d": 10, "e": "f"}),
    ("Named", (), {}),
    ("Named", (), {"a": 5}),
    ("Mixed", (1,), {"c": 2}),
    ("Mixed", (1, [1]), {"c": 2}),
    ("Own", (-3,), {}),
    ("Own", (3,), {}),
    ("Near", (4,), {}),
    ("Near", (5,), {}),
    ("Empty", (), {}),
]
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", (), {}),
    ("Plain", (1, "b", {}, 4), {}),
    ("Named", (1,), {}),
    ("Named", (), {"twice": 1}),
    ("Mixed", (1, [], 2), {}),
    ("Empty", (1,), {}),
]


def made(classes: dict[str, Any], call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> Any:
    name, args, kwargs = call
    return classes[name](*args, **kwargs)


@pytest.mark.parametrize("name", OURS)
def test_a_class_has_the_same_description(name: str) -> None:
    ours, theirs = OURS[name], THEIRS[name]
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert [(f.name, f.type, f.kw_only) for f in fields(ours)] == [(f.name, f.type, f.kw_only) for f in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert (ours.__doc__, ours.__qualname__) == (theirs.__doc__, theirs.__qualname__)
    assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_an_object_has_the_same_values(call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    ours, theirs = made(OURS, call), made(THEIRS, call)
    assert asdict(ours) == asdict(theirs)
    assert repr(ours) == repr(theirs)
    assert copy.copy(ours) == ours
    assert copy.deepcopy(ours) == ours
    assert replace(ours) == ours


@pytest.mark.parametrize("call", WRONG, ids=str)
def test_wrong_arguments_are_refused(call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    for classes in (OURS, THEIRS):
        with pytest.raises(TypeError):
            made(classes, call)


def test_objects_are_equal_if_theirs_are() -> None:
    for one in CALLS:
        for other in CALLS:
            assert (made(OURS, one) == made(OURS, other)) == (made(THEIRS, one) == made(THEIRS, other)), (one, other)
    assert OURS["Bare"]() != OURS["Bare"]()
    assert made(OURS, CALLS[0]) != made(THEIRS, CALLS[0])


@given(st.integers(), st.text(), st.integers(), st.text())
def test_equal_objects_have_equal_hashes(a: int, b: str, c: int, d: str) -> None:
    one, other = OURS["Mixed"]((a, b)), OURS["Mixed"]((c, d))
    assert (one == other) == ((a, b) == (c, d))
    assert hash(one) == hash(OURS["Mixed"]((a, b), [1]))
    assert hash(OURS["Own"](a)) == hash(OURS["Own"](-a))
    assert hash(OURS["Near"](a)) == hash(OURS["Near"](a))


def test_a_factory_is_called_for_each_object() -> None:
    assert OURS["Plain"](1).c is not OURS["Plain"](1).c


@pytest.mark.parametrize("name", ["a", "new"])
@pytest.mark.parametrize("of", ["Plain", "Derived", "Mixed"])
def test_no_attribute_can_be_changed(of: str, name: str) -> None:
    one = OURS[of](1)
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(one, name, 2)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(one, name)
    assert one.a == 1


def test_objects_can_be_pickled() -> None:
    one = Actor("user", "ann")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(one, protocol)) == one


@pytest.mark.parametrize("outer", [dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("inner", [dataclass, dataclasses.dataclass])
def test_classes_of_both_kinds_can_be_derived_from_each_other(inner: Any, outer: Any) -> None:
    @inner(frozen=True, slots=True)
    class Base:
        a: int

    @outer(frozen=True, slots=True, repr=False)
    class More(Base):
        secret: str = ""

    more: Any = More
    assert more(1) == copy.copy(more(1)) != more(1, "x")
    assert hash(more(1)) == hash(more(1))
    assert repr(more(1, "x")).endswith("(a=1)")
    with pytest.raises(FrozenInstanceError):
        more(1).secret = "x"
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        outer(type("Open", (Base,), {"__annotations__": {"b": int}}))
    with pytest.raises(TypeError, match="cannot inherit frozen"):
        outer(type("Closed", (dataclasses.make_dataclass("Open", ["a"]),), {}), frozen=True)


def test_hints_of_the_constructor_can_be_resolved() -> None:
    assert get_type_hints(Actor.__init__)["id"] is str
    assert inspect.signature(Actor, eval_str=True).parameters["id"].annotation is str


def test_a_value_that_contains_itself_can_be_printed() -> None:
    inside: list[Any] = []
    one = OURS["Mixed"](inside)
    inside.append(one)
    assert repr(one).endswith("Mixed(a=[...], b=[], c=0)")


@pytest.mark.parametrize("method", ["__init__", "__setattr__", "__getstate__"])
def test_what_is_not_supported_is_refused(method: str) -> None:
    with pytest.raises(TypeError, match="does not support this class"):
        dataclass(frozen=True)(type("Own", (), {method: lambda *_: None}))
    with pytest.raises(TypeError, match="does not support this class"):
        dataclass(frozen=True, order=True)(type("Ordered", (), {}))
    with pytest.raises(TypeError, match="does not support `hash`"):
        dataclass(frozen=True)(type("Hashed", (), {"__annotations__": {"a": int}, "a": field(hash=False)}))


def test_a_class_that_is_not_frozen_is_one_of_the_standard_library() -> None:
    @dataclass
    class Open:
        a: int = 1

    one = Open()
    one.a = 2
    assert repr(one).endswith("Open(a=2)")
    assert one == Open(2)


def test_all_frozen_classes_of_the_library_are_quick_to_define() -> None:
    slow = [
        str(path.relative_to(ROOT))
        for path in modules()
        if re.search(SLOW, text := path.read_text("utf-8"), re.MULTILINE) and "frozen=True" in text
    ]
    assert slow == []
