"""Ctrl-C during an answer: it interrupts a blocked read at once, but no memory command."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_REPEATS = 20
_REPEAT_S = 0.1
# SIGURG is ignored by default, so that one after the block does nothing. Windows, which lacks it, has no chat.
_WAKE = getattr(signal, "SIGURG", signal.SIGINT)


@contextmanager
def interrupts(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `on_interrupt`, which may raise, on Ctrl-C in the block. Has no effect outside the main thread."""
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
    """Interrupt a blocked read of the main thread after each Ctrl-C.

    Python runs a signal handler between two instructions. If the signal arrives after the last instruction before a
    read and before its system call, the read blocks, and the handler waits for the answer of the API: up to 10 minutes.
    The C part of Python writes each signal to the wake-up descriptor at once. A thread then repeats system signals,
    which interrupt the read, and Python runs the handler before it continues to read.
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

    handler = signal.signal(_WAKE, lambda _signal, _frame: None)  # an ignored signal would interrupt nothing
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
