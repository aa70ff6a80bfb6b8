"""Handles Ctrl-C during an answer. Ctrl-C interrupts a read from the network immediately."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_REPEATS = 20
_REPEAT_S = 0.1
# By default, SIGURG is ignored, so a signal that arrives too late has no effect. Windows has no SIGURG and no chat.
_WAKE = getattr(signal, "SIGURG", signal.SIGINT)


@contextmanager
def interrupts(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Context manager: while the block runs, Ctrl-C calls `on_interrupt`, which may raise an exception.

    Has no effect outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_signal: int, _frame: FrameType | None) -> None:
        on_interrupt()

    before = signal.signal(signal.SIGINT, handle)
    try:
        with _woken():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _woken() -> Iterator[None]:
    """Interrupt a blocked read of the main thread after each Ctrl-C, so that Python runs the signal handler.

    Python runs a signal handler only between two instructions. If Ctrl-C arrives just before the system call of a read,
    the read blocks, and the handler runs only after the API has answered. The answer can take 10 minutes. To prevent
    this, a thread waits for signals: the C code of Python writes each signal to the wake-up descriptor at once. The
    thread then sends SIGURG to the main thread several times. This interrupts the read, and Python runs the handler of
    Ctrl-C before it continues to read.
    """
    main = threading.get_ident()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    ended = threading.Event()

    def wake() -> None:
        while received := ours.recv(1):
            if received[0] != signal.SIGINT:
                continue
            for _ in range(_REPEATS):
                signal.pthread_kill(main, _WAKE)
                if ended.wait(_REPEAT_S):
                    break

    handler = signal.signal(_WAKE, lambda _signal, _frame: None)  # an ignored signal would not interrupt a read
    descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=wake, name="chat-interrupts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(descriptor)
        theirs.close()
        thread.join()
        ours.close()
        signal.signal(_WAKE, handler)
