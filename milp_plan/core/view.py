"""Views of a problem: tables and networks, made once and stored with it.

A view lives as long as its problem, is made once even if several threads request it, and is not
sent with the problem to other processes. So no module needs a cache of its own, keyed by problem.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar

O = TypeVar("O")  # noqa: E741 (the owner)
V = TypeVar("V")

VIEWS = "_views"
"""Attribute in which an object stores its views."""

_new = RLock()


class _Views:
    """Views of one object, and the lock for making them."""

    def __init__(self) -> None:
        self.made: dict[Hashable, Any] = {}
        self.lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Views, ()  # views are made again in the other process

    def __deepcopy__(self, _memo: object) -> _Views:
        return _Views()


def kept(owner: Any, key: Hashable, make: Callable[[], V]) -> V:
    """Return the value stored with an object under a key; make it on first use.

    Parameters
    ----------
    owner
        An object that does not change any more and has a ``__dict__``.
    key
        Name of the view, with everything on which it depends in addition to the owner.
    make
        Makes the value.
    """
    views = vars(owner).get(VIEWS)
    if views is None:
        with _new:
            views = vars(owner).setdefault(VIEWS, _Views())
    with views.lock:
        if key not in views.made:
            views.made[key] = make()
        made: V = views.made[key]
        return made


def view(read: Callable[[O], V]) -> Callable[[O], V]:
    """Return a function of a problem that runs once per problem and stores its result."""
    key = (read.__module__, read.__qualname__)

    @wraps(read)
    def remembered(owner: O) -> V:
        return kept(owner, key, lambda: read(owner))

    return remembered
