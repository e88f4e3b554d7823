"""Views of a problem: tables and networks, made once and stored with it.

A view lives as long as the problem it was made of, is made once however many threads ask, and does
not travel with the problem to other processes. So no room needs a memory of its own for the
problems that were asked about last.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar

O = TypeVar("O")  # noqa: E741 (the owner)
V = TypeVar("V")

VIEWS = "_views"
"""Name under which an object keeps its views."""

_new = RLock()


class _Shelf:
    """Views of one object, and the lock for making them."""

    def __init__(self) -> None:
        self.made: dict[Hashable, Any] = {}
        self.lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Shelf, ()  # what can be made again stays at home

    def __deepcopy__(self, _memo: object) -> _Shelf:
        return _Shelf()


def kept(owner: Any, key: Hashable, make: Callable[[], V]) -> V:
    """Return what is stored with an object under a key; made on first use.

    Parameters
    ----------
    owner
        Any object that is not changed any more and has a ``__dict__``.
    key
        Name of the view, with everything it depends on beside the owner.
    make
        Makes it.
    """
    shelf = vars(owner).get(VIEWS)
    if shelf is None:
        with _new:
            shelf = vars(owner).setdefault(VIEWS, _Shelf())
    with shelf.lock:
        if key not in shelf.made:
            shelf.made[key] = make()
        made: V = shelf.made[key]
        return made


def view(read: Callable[[O], V]) -> Callable[[O], V]:
    """Decorate a function of a problem so that it runs once per problem."""
    key = (read.__module__, read.__qualname__)

    @wraps(read)
    def remembered(owner: O) -> V:
        return kept(owner, key, lambda: read(owner))

    return remembered
