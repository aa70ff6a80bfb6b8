"""The entries of an audit log: how they are written, how each is tied to the one before, and how a log is checked.

Entries stand in chains, one for each process that worked on the store. The key of an entry is `{chain}:{seq}`, with ten
digits, and `~{chain}` says where a chain ends at present, until a later chain names that end in its first entry.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Literal, NamedTuple, TypeAlias

from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import Recorded, Version, sortable_id, to_datetime

KIND = "audit"
TAIL = "~"
FIRST = "0" * 64  # what stands for the hash before the first
_KEY = re.compile(r"([0-9a-f]{32}):([0-9]{10})", re.ASCII)
_HEAD = re.compile(r"([0-9a-f]{32}):([0-9]{1,10}):([0-9a-f]{64})", re.ASCII)

Records: TypeAlias = Iterable[tuple[str, str]]
What: TypeAlias = Literal["altered", "missing", "reordered", "duplicate", "unknown"]


class Head(NamedTuple):
    """An entry by its chain, its number in it from 1, and its hash; as text `CHAIN:SEQ:HASH`."""

    chain: str
    seq: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Head:
        """The head meant by `CHAIN:SEQ:HASH`. Raises `InvalidInput`."""
        found = _HEAD.fullmatch(text)
        if found is None:
            raise InvalidInput("an end of a chain is given as CHAIN:SEQ:HASH, as `audit verify` prints it")
        return cls(found[1], int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.chain}:{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One command: when, who, its name (None for what is no command), and the code of its reply, or `ok`.

    `changes` are memories and versions; `read` what a view showed; `listed` a view of a directory; `repeated` says that
    a reply was given again. `audit` is what the setting became, where the entry tells of that.
    """

    chain: str
    seq: int
    time: datetime
    actor: str | None
    command: str | None
    outcome: str
    changes: tuple[Recorded, ...] = ()
    read: Recorded | None = None
    listed: bool = False
    repeated: bool = False
    audit: bool | None = None
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """The first entry that is not as it was written: which, and in which way."""

    what: What
    chain: str
    seq: int

    def __str__(self) -> str:
        return f"entry {self.seq} of chain {self.chain} is {self.what}"


@dataclass(frozen=True, slots=True)
class Verified:
    """What a log holds, and the first thing that is wrong with it.

    `ends` are the ends of chains that no later chain names: to be kept elsewhere. `unaudited` are versions that were
    recorded while the log was on, and are in no entry.
    """

    entries: int
    chains: int
    problem: Problem | None
    ends: tuple[Head, ...] = ()
    unaudited: tuple[Version, ...] = ()


def new_chain(time_us: int) -> str:
    """A name for a chain: sorts by its time, and nobody else has it."""
    return sortable_id("", time_us)


def key_of(chain: str, seq: int) -> str:
    """Where an entry is kept."""
    return f"{chain}:{seq:010}"


def canonical(value: object) -> str:
    """The one JSON text for a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def sealed(store_id: str, head: Head, said: Mapping[str, object]) -> tuple[str, Head]:
    """What is kept for the entry after `head`, and the new head."""
    body = {**said, "chain": head.chain, "seq": head.seq + 1}
    digest = _hash(store_id, head.hash, body)
    return canonical({**body, "prev": head.hash, "hash": digest}), Head(head.chain, head.seq + 1, digest)


def tail_of(key: str, value: str) -> Head | None:
    """The end of a chain that a `~` record names; None if it is not one."""
    try:
        return Head.parse(f"{key.removeprefix(TAIL)}:{value}")
    except InvalidInput:
        return None


def parsed(value: str) -> AuditEntry | None:
    """An entry as it stands there, whether it is as it was written or not; None if it is none."""
    try:
        said = json.loads(value)
        return AuditEntry(
            chain=_text(said["chain"]),
            seq=int(said["seq"]),
            time=to_datetime(int(said["time"])),
            actor=_text_or_none(said.get("actor")),
            command=_text_or_none(said.get("command")),
            outcome=_text(said["outcome"]),
            changes=tuple(_recorded(each) for each in said.get("changes", ())),
            read=_recorded(said["read"]) if "read" in said else None,
            listed=bool(said.get("listed")),
            repeated=bool(said.get("repeated")),
            audit=_switch(said.get("audit")),
            hash=_text(said["hash"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # a lone surrogate is no text
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _switch(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError
    return value


def _recorded(value: Sequence[object]) -> Recorded:
    return Recorded(*(_text(each) for each in value))


def _hash(store_id: str, prev: str, body: Mapping[str, object]) -> str:
    return hashlib.sha256((prev + canonical({**body, "store": store_id})).encode()).hexdigest()


# -- checking ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Check:
    """The check of one log. `read` gives all its records in the order of their keys, each time it is called."""

    store_id: str
    read: Callable[[], Records]
    expected: Sequence[Head] = ()
    entries: int = 0
    chains: int = 0
    versions: set[str] = field(default_factory=set)
    switched: list[tuple[datetime, bool]] = field(default_factory=list)
    began: datetime | None = None
    _ends: dict[str, Head] = field(default_factory=dict)
    _problems: list[Problem] = field(default_factory=list)
    _named: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    _after: set[tuple[str, int]] = field(default_factory=set)

    def run(self) -> Problem | None:
        """Check everything; the first problem, in the order of chains and entries."""
        vouched = list(self._vouched())  # read first: what is written meanwhile is longer than this, never shorter
        for head in vouched:
            self._named.setdefault((head.chain, head.seq), set()).add(head.hash)
        for chain, records in _by_chain(self._readable()):
            self._check_chain(chain, records)
        for head in vouched:
            end = self._ends.get(head.chain)
            if head.seq and (end is None or end.seq < head.seq):
                self._note("missing", head.chain, 1 if end is None else end.seq + 1)
        return min(self._problems, key=lambda found: (found.chain, found.seq), default=None)

    def ends(self) -> tuple[Head, ...]:
        """The ends of chains that no first entry of another names."""
        return tuple(head for head in self._ends.values() if head.hash and (head.chain, head.seq) not in self._after)

    def _vouched(self) -> Iterator[Head]:
        """The entries that must be there: named by the first of later chains, by the ends, by who asks."""
        for key, value in self._readable():
            if key.startswith(TAIL):
                tail = tail_of(key, value)
                if tail is not None:
                    yield tail
                else:
                    self._note("altered", key.removeprefix(TAIL), 0)
            elif key.endswith(f":{1:010}"):
                for head in _named_in(value):
                    self._after.add((head.chain, head.seq))
                    yield head
        yield from self.expected

    def _readable(self) -> Iterator[tuple[str, str]]:
        """All records; those of a sealed store up to the first that cannot be opened, which is named."""
        last = ""
        try:
            for key, value in self.read():
                last = key
                yield key, value
        except Damaged:
            found = _KEY.fullmatch(last)  # the next is of the same chain, unless that ended here
            self._note("altered", found[1] if found else last, int(found[2]) + 1 if found else 0)

    def _note(self, what: What, chain: str, seq: int) -> None:
        self._problems.append(Problem(what, chain, seq))

    def _check_chain(self, chain: str, records: Iterable[tuple[int, str]]) -> None:
        """Check a chain up to its first problem."""
        self.chains += 1
        head, sound = Head(chain, 0, FIRST), True
        for seq, value in records:
            self.entries += 1
            entry = parsed(value)
            if entry is not None:
                self._take(entry)
            if sound:
                try:
                    what, at = self._wrong(head, seq, value, entry)
                except RecursionError:  # it is nested deeper than anything that was written
                    what, at = "altered", seq
                if what is not None:
                    sound = False
                    self._note(what, chain, at)
            head = Head(chain, seq, entry.hash if entry is not None else "")
        self._ends[chain] = head

    def _wrong(self, head: Head, seq: int, value: str, entry: AuditEntry | None) -> tuple[What | None, int]:
        if seq == 0:
            return "unknown", 0
        if seq != head.seq + 1:
            return "missing", head.seq + 1
        if entry is None:
            return "altered", seq
        said = json.loads(value)
        if canonical(said) != value or _digest_of(self.store_id, said) != entry.hash:
            return "altered", seq
        if (entry.chain, entry.seq) != (head.chain, seq):
            return ("duplicate" if entry.seq <= head.seq and entry.chain == head.chain else "reordered"), seq
        named = self._named.get((head.chain, seq), set())
        if said.get("prev") != head.hash or named - {entry.hash}:
            return "altered", seq
        return None, seq

    def _take(self, entry: AuditEntry) -> None:
        self.versions.update(change.version_id for change in entry.changes)
        self.began = entry.time if self.began is None else min(self.began, entry.time)
        if entry.audit is not None:
            self.switched.append((entry.time, entry.audit))

    def was_on(self, at: datetime) -> bool:
        """Whether the log was on at a time, as far as it tells."""
        if self.began is None or at < self.began:
            return False
        before = [state for time, state in sorted(self.switched) if time <= at]
        return before[-1] if before else True


def _digest_of(store_id: str, said: Mapping[str, Any]) -> str:
    body = {name: value for name, value in said.items() if name not in {"prev", "hash"}}
    return _hash(store_id, str(said.get("prev")), body)


def _named_in(value: str) -> list[Head]:
    """The ends of other chains that a first entry names."""
    try:
        return [Head(str(chain), int(seq), str(digest)) for chain, seq, digest in json.loads(value).get("after", ())]
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return []


def _by_chain(records: Records) -> Iterator[tuple[str, Iterator[tuple[int, str]]]]:
    """Chains in their order, each with numbers and values; what has a key of another form is number 0 of its own."""

    def split(record: tuple[str, str]) -> tuple[str, int]:
        found = _KEY.fullmatch(record[0])
        return (found[1], int(found[2])) if found else (record[0], 0)

    kept = (record for record in records if not record[0].startswith(TAIL))
    for chain, group in groupby(kept, key=lambda record: split(record)[0]):
        yield chain, ((split(record)[1], record[1]) for record in group)
