"""A lost commit is never taken for a completed one, whatever else its batch contains."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from retentive.errors import OutcomeUnknown
from retentive.storage.contract import Created, Transaction, sortable_id
from retentive.storage.server.backend import ServerBackend
from retentive.storage.server.postgresql import PostgresqlBackend, PostgresqlConnection
from retentive.storage.sql.transaction import SqlTransaction
from support import servers
from support.places import name_of
from support.waiting import until

PATIENCE_S = 60.0
A = "/memories/a"


def opened(directory: Path) -> ServerBackend:
    url = servers.postgresql().new_database(name_of(directory))
    return PostgresqlBackend(url.partition("://")[2], clock=time.time, new_id=sortable_id)


def count(tx: Transaction) -> None:
    tx.put_record("count", "n", str(int(tx.get_record("count", "n") or 0) + 1))


def test_a_commit_is_found_by_its_token_also_when_others_came_later(tmp_path: Path) -> None:
    """After too many later commits, its outcome is unknown."""
    with closing(opened(tmp_path)) as backend, closing(opened(tmp_path)) as other:
        store_id = backend.create_store(key="k", name="k").id

        def tokens() -> list[str]:
            text = (
                str(backend.look(lambda connection: connection.rows("SELECT token FROM stores")[0][0] or "")) + 16 * "0"
            )
            return [text[start : start + 16] for start in range(0, len(text), 16)]

        backend.write(store_id, count)
        own, before, *_ = tokens()
        for _ in range(20):
            other.write(store_id, count)
        assert backend._landed(store_id, own, before)
        assert not backend._landed(store_id, "never committed.", before)
        for _ in range(10):
            other.write(store_id, count)
        for token in (own, "never committed."):
            with pytest.raises(OutcomeUnknown):
                backend._landed(store_id, token, before)
        assert len(set(tokens())) == 33


def test_a_lost_batch_is_found_by_its_token(tmp_path: Path) -> None:
    """The connection fails before COMMIT. The settings look as if they were committed."""
    backend = opened(tmp_path)
    store_id = backend.create_store(key="k", name="k").id
    backend.write(store_id, lambda tx: tx.set_metadata(settings="same"))
    begun, go, cuts = threading.Event(), threading.Event(), [1]

    def hold(_: Transaction) -> None:
        begun.set()
        assert go.wait(PATIENCE_S)

    def same_settings(tx: Transaction) -> None:
        tx.set_metadata(settings="same")
        if cuts:
            cuts.pop()
            assert isinstance(tx, SqlTransaction)
            assert isinstance(tx.connection, PostgresqlConnection)
            with socket.socket(fileno=os.dup(tx.connection._raw.pgconn.socket)) as wire:
                wire.shutdown(socket.SHUT_RDWR)  # the buffered statements, including COMMIT, never reach the server

    works = [hold, lambda tx: tx.record([Created(A, b"kept")], None), same_settings]
    threads = []
    for number, work in enumerate(works):
        threads.append(threading.Thread(target=backend.write, args=(store_id, work)))
        threads[-1].start()
        assert begun.wait(PATIENCE_S)
        until(lambda number=number: len(backend._queues[store_id]._waiting) >= number)  # type: ignore[misc]
    go.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert not cuts
    assert backend.read(store_id, lambda snapshot: snapshot.get(A).data) == b"kept"
    backend.close()


def test_a_value_that_the_driver_refuses_is_no_lost_connection(tmp_path: Path) -> None:
    """A NUL in a record can only come from a bug. The bug is raised at once, and the store stays usable."""
    with closing(opened(tmp_path)) as backend:
        store_id = backend.create_store(key="k", name="k").id
        with pytest.raises(psycopg.DataError, match="NUL"):
            backend.write(store_id, lambda tx: tx.put_record("count", "n", "\0"))
        backend.write(store_id, count)
        assert backend.read(store_id, lambda found: found.get_record("count", "n")) == "1"
