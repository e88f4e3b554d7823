"""A problem of hybrid parallelism as arrays for compiled loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, lcm
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..problem import Configuration, Flow, HybridProblem
from .free_layers import allowed
from .lattice import Lattice

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EXACT = 2**52
"""Bound of integers: sums up to twice this are exact in floats."""


class Arrays(NamedTuple):
    """Arrays for compiled loops. Layers are numbered as in ``problem.order``.

    ``first[v, j]`` to ``first[v, j] + choices[v, j]``: configurations of layer v at degree j.
    ``meets[v]`` to ``meets[v + 1]``: its flows, the other ends in ``other``; configuration c pays
    ``crossing[start[c] + i]`` seconds when flow i crosses. Seconds times the data degree d:
    ``work[c] + crossing + (d - 1) * exchange[c]``. Memory: ``slope[c] * y + fixed[c]``.
    """

    degrees: Integers
    data_degrees: Integers
    first: Integers
    choices: Integers
    work: Floats
    exchange: Floats
    slope: Floats
    fixed: Floats
    start: Integers
    crossing: Floats
    meets: Integers
    other: Integers
    capacity: float
    devices: int
    micro_batches: int


class Family(NamedTuple):
    """Down-sets as arrays: masks, sizes; least work per degree, layers without it, effort.

    Effort is the least device-seconds of the layers.
    """

    arrays: Arrays
    words: npt.NDArray[np.uint64]
    sizes: Integers
    least: Floats
    lacking: Integers
    effort: Floats


@dataclass(frozen=True)
class HybridTables:
    """Arrays, and the names of their rows."""

    problem: HybridProblem
    arrays: Arrays
    configurations: tuple[Configuration, ...]


def tables(problem: HybridProblem, *, relaxed: bool = False) -> HybridTables:
    """Return a problem as arrays, without dominated configurations.

    Parameters
    ----------
    problem
        The problem.
    relaxed
        Whether sizes too large for exact arithmetic in floats are rounded down, so that a bound
        holds; otherwise they are rounded up, so that plans fit. See :func:`is_exact`.
    """
    limits = problem.limits
    rate = limits.bandwidth_bytes_per_s
    degrees = [t for t in problem.degrees if t <= limits.devices and (limits.tensor or t == 1)]
    index = {name: v for v, name in enumerate(problem.order)}
    flows: list[list[Flow]] = [[] for _ in index]
    for flow in problem.flows:
        flows[index[flow.source]].append(flow)
        flows[index[flow.target]].append(flow)
    unit, rounding = _size_unit(problem), floor if relaxed else ceil
    first = np.zeros((len(index), len(degrees)), np.int64)
    count = np.zeros_like(first)
    rows: list[Configuration] = []
    start: list[int] = []
    crossing: list[Fraction] = []
    for name, v in index.items():
        for j, degree in enumerate(degrees):
            known = problem.by_name[name].configurations.get(degree, ())
            usable = [entry for entry in known if allowed(entry, limits)]
            undominated = list(
                _undominated([(e, _crossing(e, name, flows[v], rate)) for e in usable])
            )
            first[v, j], count[v, j] = len(rows), len(undominated)
            for entry, extra in undominated:
                rows.append(entry)
                start.append(len(crossing))
                crossing += extra
    others = [
        [index[flow.target if flow.source == name else flow.source] for flow in flows[v]]
        for name, v in index.items()
    ]
    arrays = Arrays(
        degrees=np.array(degrees, np.int64),
        data_degrees=np.array(list(_data_degrees(problem)), np.int64),
        first=first,
        choices=count,
        work=_floats(entry.seconds for entry in rows),
        exchange=_floats(
            4 * entry.parameter_bytes / (rate * limits.micro_batches) for entry in rows
        ),
        slope=_floats(rounding(entry.flight_bytes / unit) for entry in rows),
        fixed=_floats(rounding(entry.fixed_bytes / unit) for entry in rows),
        start=np.array(start, np.int64),
        crossing=_floats(crossing),
        meets=np.cumsum([0, *(len(entry) for entry in others)], dtype=np.int64),
        other=np.array([v for entry in others for v in entry], np.int64),
        capacity=float((ceil if relaxed else floor)(limits.memory_bytes / unit)),
        devices=limits.devices,
        micro_batches=limits.micro_batches,
    )
    return HybridTables(problem, arrays, tuple(rows))


def is_exact(problem: HybridProblem) -> bool:
    """Return whether sums of memory are exact in the arrays."""
    return _size_unit(problem) == _exact_unit(problem)


def family(arrays: Arrays, lattice: Lattice) -> Family:
    """Return a family of down-sets as arrays."""
    layers, degrees = arrays.first.shape
    cheapest = np.full((layers, degrees), np.inf)
    for v in range(layers):
        for j in range(degrees):
            span = slice(arrays.first[v, j], arrays.first[v, j] + arrays.choices[v, j])
            cheapest[v, j] = min(arrays.work[span], default=np.inf)
    inside = np.array(
        [[entry >> v & 1 for v in range(layers)] for entry in lattice.sets], np.float64
    ).reshape(len(lattice.sets), layers)
    missing = np.isinf(cheapest)
    effort = np.min(cheapest * arrays.degrees, axis=1, initial=np.inf)
    return Family(
        arrays,
        lattice.words(layers),
        inside.sum(axis=1).astype(np.int64),
        inside @ np.where(missing, 0.0, cheapest),
        (inside @ missing).astype(np.int64),
        inside @ np.where(np.isinf(effort), 0.0, effort),
    )


def _floats(numbers: Sequence[Fraction] | Iterator[Fraction | int]) -> Floats:
    return np.array([float(number) for number in numbers], np.float64)


def _data_degrees(problem: HybridProblem) -> Iterator[int]:
    limits = problem.limits
    most = min(limits.devices, limits.micro_batches) if limits.data else 1
    return (d for d in range(1, most + 1) if limits.micro_batches % d == 0)


def _crossing(
    entry: Configuration, name: str, flows: Sequence[Flow], rate: Fraction
) -> list[Fraction]:
    """Return the seconds that each flow costs the stage when it crosses its boundary, both ways."""
    seconds = []
    for flow in flows:
        sends = flow.source == name
        extra = entry.send_bytes if sends else entry.receive_bytes
        other = flow.target if sends else flow.source
        seconds.append(2 * (flow.bytes + extra.get(other, Fraction(0))) / rate)
    return seconds


def _undominated(
    entries: Sequence[tuple[Configuration, list[Fraction]]],
) -> Iterator[tuple[Configuration, list[Fraction]]]:
    """Yield the Pareto-optimal entries (the first of equal ones)."""

    def amounts(place: int) -> list[Fraction]:
        entry, crossing = entries[place]
        sizes = [entry.parameter_bytes, entry.flight_bytes, entry.fixed_bytes]
        return [entry.seconds, *sizes, *crossing]

    figures = [amounts(place) for place in range(len(entries))]
    for place, own in enumerate(figures):
        if not any(
            all(a <= b for a, b in zip(other, own, strict=True)) and (other != own or rival < place)
            for rival, other in enumerate(figures)
            if rival != place
        ):
            yield entries[place]


def _exact_unit(problem: HybridProblem) -> Fraction:
    sizes = [problem.limits.memory_bytes]
    for layer in problem.layers:
        for known in layer.configurations.values():
            sizes += [size for e in known for size in (e.flight_bytes, e.fixed_bytes)]
    return Fraction(1, lcm(*(size.denominator for size in sizes)))


def _size_unit(problem: HybridProblem) -> Fraction:
    """Return the unit of which all sizes are multiples, unless the memory has too many of them."""
    return max(_exact_unit(problem), problem.limits.memory_bytes / EXACT)
