"""A background thread whose errors reach the run."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread


class BackgroundThread(Thread):
    """A daemon thread that stores its error, to be raised in the run's own thread.

    Parameters
    ----------
    work
        Function that the thread calls.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Do the work; called by the thread."""
        try:
            self._work()
        except BaseException as error:
            self._failure = error

    def check(self) -> None:
        """Raise the error of the work, if there was one, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


def run_beside(work: Callable[[], None], search: Callable[[Callable[[], bool]], None]) -> None:
    """Work while a thread searches, which is asked to stop when the work is done."""
    stop = Event()
    beside = BackgroundThread(lambda: search(stop.is_set))
    beside.start()
    try:
        work()
    finally:
        stop.set()
        beside.join()
    beside.check()
