"""Small models given by their numbers, with known optima, and one that no solver finishes soon."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from random import Random

import numpy as np
from scipy.sparse import csr_array

from milp_plan.lp import CompiledModel

Row = tuple[float, Sequence[float], float]
"""Lower bound, coefficients, upper bound."""


def model(
    cost: Sequence[float],
    rows: Sequence[Row],
    bounds: Sequence[tuple[float, float]],
    integers: Sequence[int] = (),
    offset: float = 0.0,
) -> CompiledModel:
    """Minimise ``cost @ x + offset``; ``integers`` are the positions of integer columns."""
    num = len(cost)
    matrix = np.array([row[1] for row in rows], dtype=float).reshape(len(rows), num)
    kinds = np.zeros(num, dtype=np.uint8)
    kinds[list(integers)] = 1
    return CompiledModel(
        cost=np.array(cost, dtype=float),
        offset=offset,
        matrix=csr_array(matrix),
        row_lower=np.array([row[0] for row in rows], dtype=float),
        row_upper=np.array([row[2] for row in rows], dtype=float),
        column_lower=np.array([low for low, _ in bounds], dtype=float),
        column_upper=np.array([high for _, high in bounds], dtype=float),
        integrality=kinds,
        columns=[("x", number) for number in range(num)],
        row_families=[f"row{number}" for number in range(len(rows))],
    )


CANARIES = {
    "HiGHS#3043": (
        model([2, 3], [(4.5, [1, 1], inf)], [(0, 10), (0, 10)], integers=[1]),
        9.0,
    ),
    "HiGHS#2957": (
        model([1, 2], [(20.1, [1, 1], inf)], [(0, 20), (8, 20)], integers=[0]),
        28.2,
    ),
    "HiGHS#3073": (
        model(
            [100, 0.01, 0],
            [(3, [1, 0, 1], 3), (-inf, [0, -1, 1], 0), (-inf, [0, -1, -1], 0)],
            [(0, inf), (-inf, inf), (0.45, 3)],
            integers=[2],
        ),
        0.03,
    ),
    "HiGHS#3094": (
        model(
            [0, 0, 0, 0, 10, 8],
            [
                (-inf, [-1000, 0, 1, 0, 0, 0], 0),
                (-inf, [0, -1000, 0, 1, 0, 0], 0),
                (1000, [0, 0, 1, 0, 1, 0], 1000),
                (1000, [0, 0, 0, 1, 0, 1], 1000),
                (-inf, [1, 1, 0, 0, 0, 0], 1),
            ],
            [(0, 1), (0, 1), (0, 1000), (0, 1000), (0, 1000), (0, 1000)],
            integers=[0, 1],
        ),
        8000.0,
    ),
}
"""Models that HiGHS 1.14.0 proves too high a value for (15, 29, 200.01, 10000), by issue."""


def knapsack() -> tuple[CompiledModel, float]:
    """Return a knapsack of four items (values 10, 13, 7, 8; room for 7 of 3, 4, 2, 3); best 23."""
    found = model([-10, -13, -7, -8], [(-inf, [3, 4, 2, 3], 7)], [(0, 1)] * 4, range(4))
    return found, -23.0


def market_split(num_columns: int = 45, num_rows: int = 5) -> tuple[CompiledModel, np.ndarray]:
    """Return a market split model that takes hours, and a poor but feasible vector."""
    rng = Random(7)
    rows: list[Row] = []
    for number in range(num_rows):
        shares = [rng.randint(0, 99) for _ in range(num_columns)]
        over = [float(k == number) for k in range(num_rows)]
        half = sum(shares) // 2
        rows.append((half, [*shares, *over, *(-x for x in over)], half))
    cost = [0.0] * num_columns + [1.0] * (2 * num_rows)
    bounds = [(0.0, 1.0)] * num_columns + [(0.0, inf)] * (2 * num_rows)
    start = [0.0] * num_columns + [row[0] for row in rows] + [0.0] * num_rows
    return model(cost, rows, bounds, range(num_columns)), np.array(start)


def parallel() -> CompiledModel:
    """Return the packing of three buffers (``packing_order``); optimum 9437182 / 131072.

    Sizes 3145728, 2097151 and 4194303, alignments 8, 3 and 3, all within the optimum.
    """
    unit, most = 131072, 9437182.5
    sizes, grids = (3145728, 2097151, 4194303), (8, 3, 3)
    rows: list[Row] = []

    def row(low: float, terms: dict[int, float], high: float = inf) -> None:
        rows.append((low / unit, [terms.get(k, 0) / unit for k in range(7)], high / unit))

    for i in range(3):
        row(-inf, {0: -unit, 1 + i: grids[i]}, -sizes[i])
    for bit, (i, j) in enumerate(((0, 1), (0, 2), (1, 2)), 4):
        apart = {1 + i: grids[i], 1 + j: -grids[j], bit: most}
        row(-inf, apart, most - sizes[i])
        row(-inf, {k: -number for k, number in apart.items()}, -sizes[j])
    for i, below, above in (
        (0, {4: 1, 5: 2}, {}),
        (1, {6: 2}, {4: 0}),
        (2, {}, {5: 0, 6: 1}),
    ):
        under = sum(sizes[j] for j in below.values())
        over = sum(sizes[j] for j in above.values())
        bits = {k: sizes[j] for k, j in below.items()} | {k: -sizes[j] for k, j in above.items()}
        row(under, {1 + i: grids[i], **bits})
        minus = {k: -number for k, number in bits.items()}
        row(sizes[i] + over, {0: unit, 1 + i: -grids[i], **minus})
    tops = [(most - sizes[i]) // grids[i] for i in range(3)]
    bounds = [(0, most / unit), *((0, top) for top in tops), (0, 1), (0, 1), (0, 1)]
    return model([1, 0, 0, 0, 0, 0, 0], rows, bounds, range(1, 7))


def symmetric() -> CompiledModel:
    """Return a schedule of five operators on two devices that are alike; its optimum is 19."""
    with np.load(Path(__file__).with_name("symmetry_canary.npz")) as part:
        num = len(part["cost"])
        indptr = part["indptr"]
        matrix = csr_array(
            (part["data"], part["indices"].astype(np.int32), indptr), shape=(len(indptr) - 1, num)
        )
        return CompiledModel(
            cost=part["cost"],
            offset=0.0,
            matrix=matrix,
            row_lower=part["row_lower"],
            row_upper=part["row_upper"],
            column_lower=part["column_lower"],
            column_upper=part["column_upper"],
            integrality=part["integrality"],
            columns=[("x", number) for number in range(num)],
            row_families=["row"] * (len(indptr) - 1),
        )
