"""Handles Ctrl-C and SIGTERM alike; both wait until a result is written."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from .exits import Exit

CODES = {
    signal.SIGTERM: Exit.TERMINATED,
    signal.SIGHUP: Exit.HUNG_UP,
    signal.SIGQUIT: Exit.QUIT,
}
"""Signals that act like Ctrl-C, with their exit codes."""

_seen: set[int] = set()
"""Signals that have arrived."""


def listen() -> None:
    """Make SIGTERM, SIGHUP and SIGQUIT act like Ctrl-C from now on.

    What is ignored from the start, as SIGHUP is by ``nohup``, stays so.
    """
    _seen.clear()
    if threading.current_thread() is threading.main_thread():
        for number in CODES:
            if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _as_interrupt)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    _seen.add(number)
    act = signal.getsignal(signal.SIGINT)
    if not callable(act):  # started in the background, where Ctrl-C is ignored; SIGTERM is not
        act = signal.default_int_handler
    act(signal.SIGINT, frame)


def code() -> Exit:
    """Return the exit code of an interruption, by its signal."""
    codes = (code for number, code in CODES.items() if number in _seen)
    return next(codes, Exit.INTERRUPTED)


class Deferred:
    """A context manager in which an interruption only sets ``asked``.

    Outside the main thread, where signals do not arrive, it changes nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
