"""A lost commit is never taken for a completed one, whatever else its batch contains."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

from retentive.storage.contract import Change, Transaction, sortable_id
from retentive.storage.server.postgresql import PostgresqlConnection, open_postgresql
from retentive.storage.sql.transaction import SqlTransaction
from support import servers
from support.places import name_of
from support.waiting import until

PATIENCE_S = 60.0
A = "/memories/a"


def test_a_lost_batch_with_unchanged_settings_is_found_by_its_versions(tmp_path: Path) -> None:
    """The connection fails before COMMIT.

    The settings look as if they were committed; only the missing version shows the loss.
    """
    url = servers.postgresql().new_database(name_of(tmp_path))
    backend = open_postgresql(url.partition("://")[2], clock=time.time, new_id=sortable_id)
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

    works = [hold, lambda tx: tx.record([Change(None, A, b"kept")], None), same_settings]
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
