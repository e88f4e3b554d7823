"""Work in a thread beside the run."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


class BackgroundThread(Thread):
    """A thread whose error is an error of the run; it never keeps the process alive.

    Parameters
    ----------
    work
        What is to be done in it.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Work; called by the thread."""
        try:
            self._work()
        except BaseException as error:
            self._failure = error

    def check(self) -> None:
        """Raise the error that the work ended with, if it did, once."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
