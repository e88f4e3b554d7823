"""Fits rates of devices and links to measured steps: the roofline and the rings.

A measured step is a list of kernels and all-reduces, one after the other. The rates minimise
the sum of absolute relative errors (least absolute deviations: a few odd rows do not dominate
all others, as with squares). For a fixed choice of the roof of each kernel
that is a linear programme; it is solved again until the choices agree with its rates.

The all-reduce has a latency and a bandwidth for each size of group: groups of different sizes use
different links, and one bandwidth for all of them is far off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from .collectives import all_reduce_ns, point_to_point_ns
from .devices import DeviceSpec, LinkSpec
from .roofline import roofline_ns

ROUNDS = 20
"""Largest number of times that roofs are chosen again."""

MIN_RATE = 1e-9
"""Least rate in nanoseconds per FLOP, byte or step: rates stay finite."""


@dataclass(frozen=True)
class MeasuredStep:
    """Work of one device in a step, and its duration.

    Parameters
    ----------
    kernels
        (FLOPs, bytes, number) of kernels that run one after the other.
    devices
        Size of the group that sums gradients.
    reduced
        (bytes, number) of all-reduces, after the kernels.
    ns
        Measured nanoseconds; 0 for a prediction.
    """

    kernels: tuple[tuple[int, int, int], ...]
    devices: int = 1
    reduced: tuple[tuple[int, int], ...] = ()
    ns: int = 0


@dataclass(frozen=True)
class Calibration:
    """The fitted rates.

    Parameters
    ----------
    device
        Roofline of the device.
    links
        Size of a group -> link of its rings.
    """

    device: DeviceSpec
    links: Mapping[int, LinkSpec]

    def predict_ns(self, step: MeasuredStep) -> int:
        """Return the ticks of a step by this roofline and these rings.

        Raises
        ------
        KeyError
            No step of such a group was measured.
        """
        total = sum(count * roofline_ns(self.device, f, b) for f, b, count in step.kernels)
        if step.devices > 1:
            link = self.links[step.devices]
            total += sum(count * all_reduce_ns(link, step.devices, b) for b, count in step.reduced)
        return total


def calibrate(steps: Sequence[MeasuredStep]) -> Calibration:
    """Fit rates to measured steps.

    Parameters
    ----------
    steps
        At least one, each with its time.

    Raises
    ------
    ValueError
        There is no step, or one without time.
    """
    if not steps or any(step.ns <= 0 for step in steps):
        raise ValueError("calibration needs measured steps, each with a time")
    groups = sorted({step.devices for step in steps if step.devices > 1})
    rates = np.array([0.0, 0.0, 0.0])
    roofs: list[list[bool]] = [[f > 0 for f, _, _ in step.kernels] for step in steps]
    for _ in range(ROUNDS):
        fitted = _fitted(steps, roofs, groups)
        rates, before = fitted, roofs
        roofs = [
            [f * rates[0] >= b * rates[1] and f > 0 for f, b, _ in step.kernels] for step in steps
        ]
        if roofs == before:
            break
    flop, byte, launch = (float(rate) for rate in rates[:3])
    figures = (_per_s(flop), _per_s(byte), 0, 1000, 1000, round(launch))
    device = DeviceSpec("calibrated", *figures, link="", network="")
    links = {
        size: LinkSpec(f"ring of {size}", _per_s(rates[4 + 2 * at]), round(rates[3 + 2 * at]), 1000)
        for at, size in enumerate(groups)
    }
    return Calibration(device, links)


def _per_s(ns_each: float) -> int:
    return round(1e9 / max(ns_each, MIN_RATE))


def _fitted(
    steps: Sequence[MeasuredStep], roofs: Sequence[Sequence[bool]], groups: Sequence[int]
) -> np.ndarray:
    """Return nanoseconds per FLOP, byte and launch, then per step and byte of each ring."""
    count = 3 + 2 * len(groups)
    rows = np.zeros((len(steps), count))
    for row, step, computes in zip(rows, steps, roofs, strict=True):
        for (flops, size, number), compute in zip(step.kernels, computes, strict=True):
            row[0 if compute else 1] += number * (flops if compute else size)
            row[2] += number
        if step.devices > 1:
            at, rounds = 3 + 2 * groups.index(step.devices), 2 * (step.devices - 1)
            for size, number in step.reduced:
                row[at] += number * rounds
                row[at + 1] += number * rounds * size / step.devices
    return least_deviations(rows, np.array([step.ns for step in steps], float))


def least_deviations(rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return rates of at least 0 that minimise the sum of relative errors of ``rows @ rates``."""
    rows = rows / times[:, None]
    length, count = rows.shape
    scale = np.maximum(rows.max(axis=0), 1e-300)
    shares = rows / scale
    off, ones = np.eye(length), np.ones(length)
    cost = np.concatenate([np.zeros(count), ones])
    above = np.hstack([shares, -off])  # share - 1 <= error, 1 - share <= error
    below = np.hstack([-shares, -off])
    answer = linprog(
        cost, A_ub=np.vstack([above, below]), b_ub=np.concatenate([ones, -ones]), method="highs"
    )
    assert answer.x is not None  # errors are free: there is always a solution
    rates: np.ndarray = answer.x[:count] / scale
    return rates


@dataclass(frozen=True)
class MeasuredTransfer:
    """A measured message between two devices, or all-reduce, on a link of its own.

    Parameters
    ----------
    num_bytes
        Size of the message, or of the tensor that is summed.
    ns
        Measured nanoseconds.
    devices
        Size of the group of an all-reduce; 0 for a message.
    """

    num_bytes: int
    ns: float
    devices: int = 0

    def predict_ns(self, link: LinkSpec) -> int:
        """Return the ticks by the model of :mod:`.collectives`."""
        if self.devices:
            return all_reduce_ns(link, self.devices, self.num_bytes)
        return point_to_point_ns(link, self.num_bytes)


def fit_link(name: str, measured: Sequence[MeasuredTransfer], source: str = "") -> LinkSpec:
    """Fit latency and bandwidth of a link, by least absolute relative errors.

    Raises
    ------
    ValueError
        There are fewer than two sizes, or times do not grow with bytes.
    """
    sizes = {entry.num_bytes for entry in measured}
    if len(sizes) < 2:
        raise ValueError(f"{len(sizes)} size of messages, at least 2 are needed")
    rows = np.array([_steps(entry) for entry in measured])
    latency, byte = least_deviations(rows, np.array([entry.ns for entry in measured]))
    if byte <= MIN_RATE:
        raise ValueError("times that do not grow with bytes: measure larger messages")
    return LinkSpec(name, max(_per_s(float(byte)), 1), round(float(latency)), 1000, source)


def _steps(entry: MeasuredTransfer) -> tuple[float, float]:
    """Return the number of latencies and of bytes, one after the other."""
    if not entry.devices:
        return 1, entry.num_bytes
    steps = 2 * (entry.devices - 1)
    return steps, steps * entry.num_bytes / entry.devices
