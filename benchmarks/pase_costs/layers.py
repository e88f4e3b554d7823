"""Layers as nests of loops, and the ways to split them.

A configuration splits loop i into ``c[i]`` equal parts and uses the product of all parts as
devices; not all devices need be used (PaSE, section II).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from milp_plan.core import Finding, InputError

from .rates import Floats
from .work import Work


@dataclass(frozen=True)
class Tensor:
    """How a layer's loops split a tensor.

    Parameters
    ----------
    axes
        For each dimension the loops whose parts split it; none: the dimension stays whole.
    extents
        Words in each dimension; only needed of outputs.
    """

    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...] = ()

    def parts(self, splits: Floats) -> Floats:
        """Parts of each dimension, for each configuration."""
        columns = [splits[:, list(loops)].prod(axis=1) for loops in self.axes]
        return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Layer:
    """One layer: loops, what they compute, tensors read and written.

    Parameters
    ----------
    kind
        Word for people, such as ``"conv"``.
    loops
        A letter for each loop; ``b`` is the loop over samples.
    extents
        Iterations of each loop.
    work
        What is computed, and the collectives inside.
    inputs
        Tensors from other layers, in order.
    output
        The tensor written, with extents.
    whole
        Loops that are never split.
    grain
        Smallest extent of a split loop on one device.
    contiguous
        Whether each part must be contiguous in memory: leading loops fully split, then one loop in
        parts, then whole loops.
    """

    kind: str
    loops: str
    extents: tuple[int, ...]
    work: Work
    inputs: tuple[Tensor, ...]
    output: Tensor
    whole: frozenset[int] = frozenset()
    grain: int = 1
    contiguous: bool = False


@dataclass(frozen=True)
class LayerGraph:
    """A network: layers and which feeds which.

    Parameters
    ----------
    name
        Of the network.
    layers, names
        One of each per operator; repeated layers are equal.
    edges
        (producer, consumer, number of the consumer's input).
    """

    name: str
    layers: tuple[Layer, ...]
    names: tuple[str, ...]
    edges: tuple[tuple[int, int, int], ...]


def configurations(layer: Layer, devices: int) -> Floats:
    """All splits of a layer over at most this many devices, a row each, in lexicographic order."""
    if devices < 1:
        raise InputError([Finding("devices", str(devices), "at least 1", "give more")])
    rows = np.ones((1, 0), dtype=np.int64)
    for loop, extent in enumerate(layer.extents):
        parts = [1] if loop in layer.whole else _divisors(extent, devices, layer.grain)
        used = rows.prod(axis=1)
        keep = used[:, None] * np.array(parts) <= devices
        row, part = np.nonzero(keep)
        rows = np.column_stack([rows[row], np.array(parts, dtype=np.int64)[part]])
    if layer.contiguous:
        rows = rows[_contiguous(rows, np.array(layer.extents))]
    return rows.astype(np.float64)


@lru_cache(maxsize=4096)
def _divisors(extent: int, most: int, grain: int) -> list[int]:
    found = [n for n in range(1, min(extent, most) + 1) if extent % n == 0 and extent // n >= grain]
    return found or [1]


def _contiguous(rows: np.ndarray, extents: np.ndarray) -> np.ndarray:
    """Rows in which a loop is split only if all loops before it are split completely."""
    full = np.cumprod(rows == extents, axis=1).astype(bool)
    before = np.column_stack([np.ones(len(rows), dtype=bool), full[:, :-1]])
    return np.asarray(((rows == 1) | before).all(axis=1))
