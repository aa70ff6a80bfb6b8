"""The figures of a memory store agree with a direct count."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore
from retentive.stats import TOP, stats
from support.clock import DAY, Clock
from support.commands import create, view
from support.model import Model
from support.walk import Walk


def walked(store: MemoryStore, clock: Clock, seed: int, steps: int) -> None:
    """Run a random walk of commands by three actors over some weeks."""
    model = Model()
    way, chance = Walk(seed, model), random.Random(seed)
    for _ in range(steps):
        clock.now += chance.choice((1.0, 1.0, 3_600.0, DAY, 3 * DAY))
        command = way.command()
        model.execute(command)
        store.execute(command, actor=f"session:s{chance.randrange(3)}")


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), days=st.integers(1, 400))
def test_the_figures_agree_with_a_count(seed: int, days: int) -> None:
    """Each day, each list and each sum is counted from the versions of a random walk."""
    clock = Clock()
    with retentive.open("sqlite://", clock=clock, sweep=False) as place:
        store = place.store()
        walked(store, clock, seed, 60)
        found = stats(store, days=days)
        versions = list(reversed(list(store.versions())))
        present = {memory.id: memory for memory in store.memories()}
        viewed = store._core.accesses.of(store.id)
    today = datetime.fromtimestamp(clock.now, UTC).date()
    assert (found.use.memories, found.versions) == (len(present), len(versions))
    assert found.use.size_bytes == sum(memory.size_bytes for memory in present.values())
    assert [day.day for day in found.days] == [today - timedelta(days=n) for n in reversed(range(days))]
    counts = Counter((version.created_at.date(), version.operation) for version in versions)
    stored = 0
    texts: dict[str, str] = {}
    for version in versions:
        if version.sha256 is not None and texts.get(version.memory_id) != version.sha256:
            stored += version.size_bytes or 0
        texts[version.memory_id] = version.sha256 or ""
    for day in found.days:
        numbers = tuple(counts[day.day, operation] for operation in ("created", "modified", "deleted"))
        assert day[1:] == numbers
    assert found.versions_bytes == stored
    recent = [version for version in versions if version.created_at.date() > today - timedelta(days=days)]
    changes = Counter(version.memory_id for version in recent)
    assert [count for _, count in found.most_changed] == [count for _, count in changes.most_common(TOP)]
    assert dict(found.actors) == dict(Counter(str(version.actor) for version in recent))
    biggest = sorted((memory.size_bytes for memory in present.values()), reverse=True)
    assert [one.size_bytes for one in found.use.biggest] == biggest[:TOP]
    assert {(one.path, one.size_bytes) for one in found.use.biggest} <= {
        (memory.path, memory.size_bytes) for memory in present.values()
    }
    used = {memory.path: max(memory.updated_at.timestamp(), viewed.get(memory.id, 0)) for memory in present.values()}
    assert [one.path for one in found.use.least_used] == sorted(used, key=lambda path: (used[path], path))[:TOP]


def test_views_count_as_use() -> None:
    """A memory that was viewed recently counts as used later than a memory that was changed before."""
    clock = Clock()
    with retentive.open("sqlite://", clock=clock) as place:
        store = place.store()
        for name in "abc":
            store.execute(create(f"/memories/{name}", name))
        clock.now += 10 * DAY
        store.execute(view("/memories/a"))
        found = stats(store)
    assert [one.path for one in found.use.least_used] == ["/memories/b", "/memories/c", "/memories/a"]
    assert abs(found.use.least_used[-1].at.timestamp() - clock.now) < 1


def test_proposals_are_counted() -> None:
    with retentive.open("sqlite://") as place:
        store = place.store()
        store.change_settings({"review": ["session:*"]})
        store.execute(create("/memories/a", "x"), actor="session:s1")
        assert stats(store).proposals == 1
