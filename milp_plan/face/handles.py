"""What the calls of a model return, and how later calls take it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .quantities import quoted, refuse


@dataclass(frozen=True)
class Handle:
    """What an ``add_...`` of a :class:`milp_plan.Model` returns; its name will do as well.

    Parameters
    ----------
    what
        ``"device class"``, ``"device"``, ``"operator"`` or ``"value"``.
    name
        Unique among those of the model; also ``str(handle)``.
    """

    what: str
    name: str
    model: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.name


def several(given: Any, where: str) -> list[Any]:
    """Return a list of handles or names, of which there may be one alone.

    Raises
    ------
    InputError
        It is neither.
    """
    if isinstance(given, Handle | str):
        return [given]
    if not isinstance(given, Iterable):
        refuse(where, quoted(given), "handles or names", "give a list")
    return list(given)
