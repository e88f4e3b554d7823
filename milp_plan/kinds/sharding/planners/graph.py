"""A labelling as arrays for compiled searches: floating point costs, a penalty for forbidden."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..labelling import BAN, Integers, Labelling
from ..messages import links_of

Floats = NDArray[np.float64]

FORBIDDEN = 1e18
"""Cost of a pair that is not allowed in a search that has no plan yet."""


class Graph(NamedTuple):
    """Arrays of a labelling; see :class:`milp_plan.kinds.sharding.labelling.Labelling`."""

    offsets: Integers
    cost: Floats
    ends: Integers
    table_offsets: Integers
    table: Floats
    starts: Integers
    neighbours: Integers
    edges: Integers
    part_offsets: Integers
    parts: Integers
    use_offsets: Integers
    usage: Floats
    capacity: Floats


def graph_of(labelling: Labelling) -> Graph:
    """Copy a labelling into arrays for searches."""
    b, links = labelling, links_of(labelling)
    return Graph(
        b.offsets,
        b.cost.astype(np.float64),
        b.ends,
        b.table_offsets,
        np.where(b.table >= BAN, FORBIDDEN, b.table.astype(np.float64)),
        links.starts,
        links.neighbours,
        links.edges,
        b.part_offsets,
        b.parts,
        b.use_offsets,
        b.usage.astype(np.float64),
        b.capacity.astype(np.float64),
    )
