"""Cost of a state: a soft maximum over lower bounds, tuned per group of states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .tables import Array, BeamTables


@dataclass(frozen=True)
class Tuning:
    """Weights of one group of states for its bounds.

    Parameters
    ----------
    sharpness
        τ in mean task lengths, of machines and of kinds.
    weights
        Weights of machines, and of kinds by role (forward, backward, weight, other).
    in_flight
        Most micro-batches between holder and last releaser, for each pair in
        :attr:`.tables.BeamTables.flights`; ``None``: what fits.
    noise
        Costs are multiplied by 1 + noise·u, u uniform in [0, 1).
    patience
        By how many mean task lengths a machine may wait longer rather than take more memory.
    guarded
        Whether guards hold back kinds (see :class:`~.arrays.Guard`).
    """

    sharpness: tuple[float, float] = (3.0, 3.0)
    weights: tuple[float, float, float, float, float] = (1.0, 1.0, 1.0, 1.0, 1.0)
    in_flight: tuple[int, ...] | None = None
    noise: float = 0.0
    patience: float = 0.0
    guarded: bool = True


class Costs:
    """Tunings and targets of all groups as arrays."""

    def __init__(
        self, tables: BeamTables, tunings: Sequence[Tuning], targets: Sequence[int]
    ) -> None:
        sharp = np.array([t.sharpness for t in tunings], dtype=np.float32) * tables.mean
        self.load_rate = (1 / sharp[:, 0])[:, None]
        self.bound_rate = (1 / sharp[:, 1])[:, None]
        weights = np.array([t.weights for t in tunings], dtype=np.float32)
        self.load_weight = weights[:, 0]
        self.bound_weight = weights[:, 1:][:, tables.role]
        self.noise = np.array([t.noise for t in tunings], dtype=np.float32)
        self.noisy = bool(self.noise.any())
        self.in_flight = np.array([t.in_flight or tables.most for t in tunings], dtype=np.int64)
        self.patience = np.array(
            [round(t.patience * tables.mean) for t in tunings], dtype=tables.type
        )
        self.guarded = np.array([t.guarded for t in tunings])
        self.target = np.array(targets, dtype=np.int64)

    def costs(
        self, bounds: Array, loads: Array, group: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return the costs of states; ``group`` is sorted.

        Returns
        -------
        rows, costs
            Rows whose bound keeps the target, and the logarithm of the cost of every row.
        """
        bound = np.maximum(bounds.max(1), loads.max(1))
        rows = np.flatnonzero(bound <= self.target[group])
        fresh = np.empty(len(group), dtype=bool)
        fresh[0] = True
        np.not_equal(group[1:], group[:-1], out=fresh[1:])
        least = np.minimum.reduceat(bound, np.flatnonzero(fresh))
        base = least[np.cumsum(fresh) - 1][:, None]
        one = (loads - base).astype(np.float32)
        one *= self.load_rate[group]
        two = (bounds - base).astype(np.float32)
        two *= self.bound_rate[group]
        for part in (one, two):
            np.minimum(part, 60, out=part)
            np.exp(part, out=part)
        cost = one.sum(1) * self.load_weight[group]
        cost += np.einsum("ij,ij->i", two, self.bound_weight[group])
        if self.noisy:
            cost *= 1 + self.noise[group] * rng.random(len(cost), dtype=np.float32)
        return rows, np.log(cost)


def cheapest(rows: Array, cost: Array, key: Array, group: Array, width: int) -> Array:
    """Return the rows to retain: the cheapest per key, then the ``width`` cheapest per group."""
    order = rows[np.argsort(cost[rows].astype(np.float64) + 1000.0 * group[rows])]
    _, first = np.unique(key[order], return_index=True)
    first.sort()
    order = order[first]
    groups = group[order]
    starts = np.searchsorted(groups, groups, side="left")
    return order[np.arange(len(order)) - starts < width]
