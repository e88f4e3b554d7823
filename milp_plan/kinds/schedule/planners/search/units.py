"""Units of a move: colocation groups and operators without one, their sites and neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..decoder import Compiled
from ..decoder.tables import rows

Ints = NDArray[np.int64]


class Units(NamedTuple):
    """Units in topological order of their first operators; ``x_ptr`` as in the decoder's layout.

    Parameters
    ----------
    of
        Operator -> unit.
    ptr, operators
        Unit -> operators, by position in topological order.
    site_ptr, sites
        Unit -> sites on which all its operators can run.
    near_ptr, near
        Unit -> units it exchanges values with, once per value and reader.
    movable
        Units with more than one site.
    option_ptr
        Operator -> its options.
    """

    of: Ints
    ptr: Ints
    operators: Ints
    site_ptr: Ints
    sites: Ints
    near_ptr: Ints
    near: Ints
    movable: Ints
    option_ptr: Ints


def units_of(compiled: Compiled) -> Units:
    """Read the units of a problem."""
    view, position = compiled.view, compiled.position
    members = [sorted(position[operator] for operator in unit) for unit in view.units]
    order = sorted(range(len(members)), key=lambda unit: members[unit][0])
    members = [members[unit] for unit in order]
    sites = [view.unit_sites[unit] for unit in order]
    of = np.zeros(len(view.names), dtype=np.int64)
    for unit, operators in enumerate(members):
        of[operators] = unit
    near: list[list[int]] = [[] for _ in members]
    for operator, readers in enumerate(view.successors):
        one = int(of[position[operator]])
        for reader in readers:
            two = int(of[position[reader]])
            if one != two:
                near[one].append(two)
                near[two].append(one)
    movable = [unit for unit, choices in enumerate(sites) if len(choices) > 1]
    counts = [len(operator.options) for operator in compiled.operators]
    return Units(
        of,
        *rows(members),
        *rows(sites),
        *rows(near),
        np.array(movable, dtype=np.int64),
        np.cumsum([0, *counts], dtype=np.int64),
    )
