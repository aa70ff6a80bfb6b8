"""Object storage over an unreliable network: lost replies, late requests, and incompatible servers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from retentive.errors import InvalidInput, OutcomeUnknown, PermissionDenied, RetentiveError, Unavailable
from retentive.storage.contract import Created, Transaction
from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.requests import Missing, Requests
from retentive.testing.backend_suite.opening import A, B, Opened
from retentive.testing.backend_suite.sharing import count_up
from support import servers

from .objects import BUCKET, HOST, Asked, Reply, Rule, Wire, cut_after, cut_before, failed, is_commit, nth

PREFIX = {"at": ""}
ODD = "416/169.254.1.2/invalidrange/403"  # what a prefix, a key, a port or a time can contain


@pytest.fixture(autouse=True)
def _prefix() -> None:
    PREFIX["at"] = os.urandom(6).hex()


def opened(
    wire: Wire | None, *, timeout_s: float = 30.0, bucket: str = BUCKET, allow_http: str = "true"
) -> ObjectsBackend:
    """Open a backend through the proxy, or directly."""
    port = servers.moto().port if wire is None else wire.port
    query = f"endpoint=http://{HOST}:{port}&region=us-east-1&allow_http={allow_http}&timeout_s={timeout_s}"
    return ObjectsBackend(f"s3://{bucket}/{PREFIX['at']}?{query}")


# -- lost replies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [cut_after, cut_before, failed])
def test_a_commit_with_a_lost_reply_is_made_once(wire: Wire, harm: Rule) -> None:
    """Every third commit loses its reply, before or after the server executes it.

    Each write is recorded once and returned.
    """
    store = Opened(opened(wire))
    store.create({A: b"0"})
    wire.rule = nth({1, 3, 6, 9, 10}, is_commit, harm)
    count_up(store, 12)
    beside = Opened(opened(None))
    assert beside.tree() == {A: b"12"}
    assert len(beside.versions()) == beside.revision() == 13


@pytest.mark.parametrize(
    "later", [1, pytest.param(63, marks=pytest.mark.long), pytest.param(64, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("executed", [True, False])
def test_a_lost_reply_is_settled_after_other_commits(wire: Wire, later: int, executed: bool) -> None:
    """The ids of the commits in the manifest show the outcome, also of a commit without a version.

    After more commits than a manifest lists, it is unknown. The work never runs twice if it was committed.
    """
    store, other = Opened(opened(wire)), Opened(opened(None))
    store.create({A: b"0"})
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        tx.set_metadata(seal=f"{tx.state.seal}+")

    def rule(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
        if executed:
            forward(asked.raw)
        for number in range(later):
            other.put(A, str(number).encode())
        return None

    wire.rule = nth({1}, is_commit, rule)
    with pytest.raises(OutcomeUnknown) if later == 64 else nullcontext():
        store.backend.write(store.id, work)
    assert len(runs) == (1 if executed or later == 64 else 2)
    assert other.read(lambda found: found.state.seal) == (None if later == 64 and not executed else "None+")


def test_a_late_commit_changes_nothing(wire: Wire) -> None:
    """The request reaches the server after its writer has retried, and after the next write."""
    store = Opened(opened(wire))
    store.create({A: b"0"})
    late: list[Callable[[], bytes]] = []

    def hold(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
        late.append(partial(forward, asked.raw))
        return None

    wire.rule = nth({1, 2, 4}, is_commit, hold)
    count_up(store, 3)
    assert len(late) == 3
    assert all(b" 412 " in arrive().partition(b"\r\n")[0] for arrive in late)
    assert Opened(opened(None)).tree() == {A: b"3"}
    assert len(store.versions()) == 4


@pytest.mark.long
def test_an_unsettled_commit_is_reported_as_unknown(wire: Wire) -> None:
    """The commit and every check of its outcome fail until the deadline."""
    store = Opened(opened(wire, timeout_s=1.5))
    store.create({A: b"0"})

    def rule(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
        if asked.is_commit:
            forward(asked.raw)
        return None if b"/manifests/" in asked.path else forward(asked.raw)

    wire.rule = rule
    with pytest.raises(OutcomeUnknown):
        store.put(A, b"1")
    assert Opened(opened(None)).get(A).data == b"1"


def test_a_creation_with_a_lost_reply_is_made_once(wire: Wire) -> None:
    """The object of the store key and the manifest are each created once."""
    for lost in ({1}, {2}, {1, 2}):
        wire.rule = nth(
            lost,
            lambda asked: b"if-none-match: *" in asked.head and bool(re.search(rb"/keys/|/manifests/", asked.path)),
            cut_after,
        )
        backend = opened(wire)
        key = str(lost)
        made = backend.create_store(key=key, name="n")
        assert backend.get_store(key) == opened(None).get_store(key) == made
        keyless = opened(wire).create_store(key=None, name="n")
        assert opened(None).get_store(keyless.id) == keyless
    assert len(opened(None).list_stores()) == 6


# -- round trips ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_view_is_one_round_trip_and_a_write_three_at_most(wire: Wire) -> None:
    """The page and the text are cached already."""
    store = Opened(opened(wire))
    store.create({A: b"0"})
    store.get(A)
    wire.asked.clear()
    for _ in range(3):
        store.get(A)
        store.memories()
    assert [(asked.method, b"/manifests/" in asked.path) for asked in wire.asked] == [(b"GET", True)] * 6
    wire.asked.clear()
    store.put(A, b"1")
    assert [asked.method for asked in wire.asked] == [b"PUT", b"PUT"]
    wire.asked.clear()
    with pytest.raises(InvalidInput):
        store.backend.write(store.id, refuse)
    assert [asked.method for asked in wire.asked] == [b"GET"]


def refuse(tx: Transaction) -> None:
    """Record a change, then raise."""
    tx.record([Created(B, b"")], None)
    raise InvalidInput("no")


# -- incompatible servers ------------------------------------------------------------------------------------


def wants_unquoted(asked: Asked, forward: Callable[[bytes], bytes]) -> Reply:
    """Compare ETags like Ceph RGW 16, which never matches a quoted ETag."""
    if b'if-match: "' in asked.head and b"if-none-match" not in asked.head:
        return b"HTTP/1.1 412 Precondition Failed\r\ncontent-length: 0\r\n\r\n"
    return forward(asked.raw)


def ignoring(header: str) -> Rule:
    """Execute each write without this header."""
    return lambda asked, forward: forward(asked.without(header) if asked.method == b"PUT" else asked.raw)


@pytest.mark.long
def test_a_server_that_wants_etags_unquoted_gets_them(wire: Wire) -> None:
    """The backend detects this with a trial object, which it deletes."""
    wire.rule = wants_unquoted
    store = Opened(opened(wire))
    store.create({A: b"0"})
    count_up(store, 3)
    assert store.get(A).data == b"3"
    tried = {asked.path for asked in wire.asked if b"/probe/" in asked.path}
    assert len(tried) == 1
    assert all(b" 404 " in wire.forward(b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n" % path)[:20] for path in tried)


DENIED = b"<Error><Code>AccessDenied</Code><Message>arn:secret</Message></Error>"
REFUSALS: dict[str, tuple[Rule | None, dict[str, Any], type[RetentiveError], str]] = {
    "ignores if-match": (ignoring("if-match"), {}, InvalidInput, "ignores conditions"),
    "ignores if-none-match": (ignoring("if-none-match"), {}, InvalidInput, "ignores conditions"),
    "forbids": (
        lambda asked, forward: b"HTTP/1.1 403 Forbidden\r\ncontent-length: %d\r\n\r\n%b" % (len(DENIED), DENIED),
        {},
        PermissionDenied,
        "refuses the credentials",
    ),
    "has no such bucket": (None, {"bucket": "nobody-made-it", "timeout_s": 2}, Unavailable, "bucket does not exist"),
    "has no TLS": (None, {"allow_http": "false", "timeout_s": 1}, InvalidInput, "allow_http=true"),
}


@pytest.mark.long
@pytest.mark.parametrize("server", REFUSALS)
def test_a_server_that_cannot_be_used_is_reported(wire: Wire, server: str) -> None:
    """No call treats the location as empty, and nothing is written. The error has no part of the server's answer."""
    rule, options, error, said = REFUSALS[server]
    wire.rule = rule or wire.rule
    backend = opened(wire, **options)
    calls: list[Callable[[], Any]] = [partial(backend.create_store, key="k", name="n")]
    calls += [] if server.startswith("ignores") else [partial(backend.get_store, "k"), backend.list_stores]
    for call in calls:
        with pytest.raises(error, match=said) as caught:
            call()
        assert "secret" not in str(caught.value)
    assert opened(None).list_stores() == []
    assert wire.asked == [] or server != "has no TLS"


# -- errors of the driver ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (None, b"", Unavailable),
        (b"400 Bad Request", b"", Unavailable),
        (b"403 Forbidden", b"", PermissionDenied),
        (b"416 Range Not Satisfiable", b"", Missing),
        (b"416 Range Not Satisfiable", b"<Error><Code>InvalidRange</Code></Error>", Missing),
    ],
)
def test_numbers_in_a_url_mean_nothing(wire: Wire, status: bytes | None, body: bytes, error: type[Exception]) -> None:
    """The texts of the driver's errors contain URLs and times. A range behind the end of an object is missing."""
    reply = status and b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)
    wire.rule = lambda asked, forward: reply
    requests = Requests(f"s3://{BUCKET}/{ODD}?endpoint=http://{HOST}:{wire.port}&region=x&allow_http=true&timeout_s=1")
    with pytest.raises(error):
        requests.get_range("416", 0, 1)
    if error is not Missing:
        with pytest.raises(error):
            requests.get("416")


def test_a_range_behind_the_end_in_memory_is_missing() -> None:
    requests = Requests("memory://ranges")
    requests.put("a", b"xyz")
    with pytest.raises(Missing):
        requests.get_range("a", 5, 3)
