"""Compares measured kernels with the roofline: achieved rates, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from milp_plan.cost.clusters import cluster
from milp_plan.cost.devices import DeviceSpec
from milp_plan.cost.roofline import roofline_ns
from milp_plan.io.capture_wire import Capture, Kernel

from .fuse import alone
from .instance import Draft
from .merge import merged
from .work import FORMULAS, flops_of, operator_of

BILLION = 10**9


@dataclass(frozen=True)
class ClassOfKernels:
    """Kernels of one class, and their times by the roofline.

    Parameters
    ----------
    kernels
        Number of measured kernels.
    measured_ns, roofline_ns
        Sums of measured times and of those by the roofline.
    error
        Median over kernels of the difference, relative to the measured time.
    """

    kernels: int
    measured_ns: int
    roofline_ns: int
    error: float


@dataclass(frozen=True)
class KernelCalibration:
    """Rates that a device achieved in a profile.

    Parameters
    ----------
    spec
        Rates of the roofline: medians over the kernels that compute and over those that move;
        the launch is the shortest kernel.
    classes
        Class of operators -> figures under these rates.
    """

    spec: DeviceSpec
    classes: Mapping[str, ClassOfKernels]


def class_of(kernel: Kernel) -> str:
    """Return the class of operators that a kernel belongs to."""
    name = operator_of(kernel)
    if "attention" in name:
        return "attention"
    if "convolution" in name:
        return "convolution"
    if name in FORMULAS:
        return "matrix product"
    return "elementwise" if kernel.pointwise else "other"


def calibrate(capture: Capture) -> KernelCalibration:
    """Fit the roofline to a profile.

    Kernels that compute give the rate of computing, the others that of moving bytes: the median,
    weighted by work, so that it is that of large kernels. The launch is the shortest kernel.

    Raises
    ------
    ValueError
        The graph has no profile.
    """
    work = kernel_work(capture)
    launch = min(ns for ns, _, _ in work.values())
    computing = [(flops / max(ns, 1), flops) for ns, flops, _ in work.values() if flops]
    moving = [(moved / max(ns, 1), moved) for ns, flops, moved in work.values() if not flops]
    spec = DeviceSpec(
        "measured",
        int(_middle(computing) * BILLION) or 1,
        int(_middle(moving) * BILLION) or 1,
        0,
        1000,
        1000,
        launch,
        "",
        "",
    )
    return KernelCalibration(spec, compared(capture, spec))


def compared(capture: Capture, spec: DeviceSpec) -> dict[str, ClassOfKernels]:
    """Compare the roofline of a device with a profile.

    Raises
    ------
    ValueError
        The graph has no profile.
    """
    work = kernel_work(capture)
    kinds: dict[str, list[tuple[int, int]]] = {}
    for kernel in capture.kernels:
        if kernel.name in work:
            ns, flops, moved = work[kernel.name]
            kinds.setdefault(class_of(kernel), []).append((ns, roofline_ns(spec, flops, moved)))
    return {
        kind: ClassOfKernels(
            len(pairs),
            sum(ns for ns, _ in pairs),
            sum(guess for _, guess in pairs),
            median(abs(ns - guess) / max(ns, 1) for ns, guess in pairs),
        )
        for kind, pairs in sorted(kinds.items())
    }


def kernel_work(capture: Capture) -> dict[str, tuple[int, int, int]]:
    """Return kernel -> measured nanoseconds, operations, bytes that it moves.

    Raises
    ------
    ValueError
        The graph has no profile.
    """
    if capture.profile is None or not capture.profile.kernels:
        raise ValueError(f"{capture.name}: no profile")
    units = alone(capture)
    draft = Draft(capture, cluster("1xA100"), merged(capture, units, "kernel"), "kernel")
    return {
        kernel.name: (
            capture.profile.kernels[kernel.name],
            flops_of(kernel) or 0,
            draft.moved((place,)),
        )
        for place, kernel in enumerate(capture.kernels)
        if kernel.name in capture.profile.kernels
    }


def _middle(rates: list[tuple[float, int]]) -> float:
    """Return the median of rates, weighted by their work."""
    half = sum(weight for _, weight in rates) / 2
    for rate, weight in sorted(rates):
        half -= weight
        if half <= 0:
            return rate
    return 0.0
