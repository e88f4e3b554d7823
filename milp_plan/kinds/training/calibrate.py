"""Fit rates of devices and frameworks to measured steps, by least squares on logarithms.

Parameters are fitted as logarithms, so that they stay above 0, and stay near their start where the
runs say nothing. The loss is ``soft_l1``: a run that is far off counts by its distance, not by its
square. The work of every run is counted once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from milp_plan.core import Finding, InputError

from .costs import step_seconds
from .efficiency import Efficiency, ErrorBand
from .measured import Measured
from .work import StageWork, stage_works

DEVICE_BOUNDS = {
    "matrix": (0.05, 1.0),
    "grouped": (0.1, 1.0),
    "attention": (0.01, 1.0),
    "memory": (0.05, 1.0),
    "node": (0.02, 1.0),
    "network": (0.02, 1.0),
    "latency_ns": (500.0, 2e6),
    "kernel_ns": (500.0, 1e5),
}
SOFTWARE_BOUNDS = {
    "launch_ns": (500.0, 500_000.0),
    "step_ns": (1e5, 1e9),
    "overlap": (0.01, 1.0),
    "crossing_ns": (1.0, 1e7),
    "stall_ns": (1.0, 1e10),
}
DEFAULTS = (*DEVICE_BOUNDS, "launch_ns", "step_ns", "overlap")
"""What is fitted by default."""

PRIOR = 0.02
"""Weight of the distance from the start, in logarithms: it decides what the runs leave open."""

ROBUST = 0.05
"""Relative error from which a run counts by its distance."""

SLOWER = 3.0
"""A second start launches so much more slowly: where the host bounds no pass at the first, the loss
does not depend on it."""

FOLDS = 5


@dataclass(frozen=True)
class Calibrated:
    """A fit to measured runs and how well it predicts.

    Parameters
    ----------
    efficiency
        The rates; its error band is of runs whose model and cluster size were left out, or of the
        runs themselves where there is one model on one size alone.
    samples
        The runs with a measured step.
    before, after
        Predicted seconds of each run by the rates at the start, and by the fit.
    left_out
        Predicted seconds of each run by rates fitted without its model on its number of devices;
        empty if there is nothing else to fit to.
    """

    efficiency: Efficiency
    samples: tuple[Sample, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    left_out: tuple[float, ...]


@dataclass(frozen=True)
class Sample:
    """A measured run and its work."""

    run: Measured
    works: tuple[StageWork, ...]


def samples(runs: Iterable[Measured], efficiency: Efficiency) -> list[Sample]:
    """Return the runs with a measured step, each with its work."""
    software = efficiency.software
    return [
        Sample(
            run,
            stage_works(run.architecture, run.cluster, run.configuration, run.sequence, software),
        )
        for run in runs
        if run.step_s is not None and not run.crashed
    ]


def predicted(sample: Sample, efficiency: Efficiency) -> float:
    """Return the predicted seconds of a step."""
    run = sample.run
    return step_seconds(sample.works, run.cluster, run.configuration, efficiency).total


def fit(
    chosen: Sequence[Sample],
    start: Efficiency,
    device: str,
    free: Sequence[str] = DEFAULTS,
    weights: Sequence[float] | None = None,
) -> Efficiency:
    """Return the rates of one device class and the framework that fit the runs best.

    Parameters
    ----------
    chosen
        Runs on that device class.
    start
        Where to start, and what is not fitted.
    device
        Name of the device class.
    free
        Names of the figures to fit.
    weights
        Weight of each run; 1 if not given.
    """
    measured = np.log([each.run.step_s or math.nan for each in chosen])
    scale = np.sqrt(np.ones(len(chosen)) if weights is None else np.asarray(weights))
    bounds = np.log([(DEVICE_BOUNDS | SOFTWARE_BOUNDS)[name] for name in free])

    def residuals(point: np.ndarray) -> np.ndarray:
        efficiency = _with(start, device, free, np.exp(point))
        errors = np.log([predicted(each, efficiency) for each in chosen]) - measured
        return np.concatenate([errors * scale, PRIOR * (point - first)])

    rates, software = start.rates(device), start.software
    first = np.log([getattr(rates if name in DEVICE_BOUNDS else software, name) for name in free])
    first = np.clip(first, bounds[:, 0] + 1e-6, bounds[:, 1] - 1e-6)
    found = least_squares(
        residuals,
        first,
        bounds=(bounds[:, 0], bounds[:, 1]),
        loss="soft_l1",
        f_scale=ROBUST,
        diff_step=np.full(len(free), 1e-3),
        max_nfev=60,
    )
    return _with(start, device, free, np.exp(found.x))


def _with(
    efficiency: Efficiency, device: str, names: Sequence[str], values: np.ndarray
) -> Efficiency:
    given = dict(zip(names, map(float, values), strict=True))
    rates = replace(efficiency.rates(device), **_among(DEVICE_BOUNDS, given))
    software = replace(efficiency.software, **_among(SOFTWARE_BOUNDS, given))
    known = efficiency.fitted.get(device, ())
    fitted = tuple(name for name in DEVICE_BOUNDS if name in given or name in known)
    return replace(
        efficiency.with_rates(device, rates),
        software=software,
        fitted={**efficiency.fitted, device: fitted},
    )


def _among(names: Container[str], given: Mapping[str, float]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}


def folds(chosen: Sequence[Sample], key: Callable[[Sample], object]) -> list[list[int]]:
    """Return the runs by their key, whole keys together, in at most :data:`FOLDS` parts."""
    keys: dict[object, list[int]] = {}
    for index, each in enumerate(chosen):
        keys.setdefault(key(each), []).append(index)
    parts: list[list[int]] = [[] for _ in range(min(FOLDS, len(keys)))]
    for indices in sorted(keys.values(), key=len, reverse=True):
        min(parts, key=len).extend(indices)
    return [part for part in parts if part]


def band(ratios: Sequence[float]) -> ErrorBand:
    """Return the error band of predicted over measured."""
    if not ratios:
        return ErrorBand()
    low, high = np.quantile(ratios, [0.1, 0.9])
    error = float(np.median(np.abs(np.asarray(ratios) - 1)))
    return ErrorBand(float(low), float(high), error, len(ratios))


def calibrate(runs: Iterable[Measured], start: Efficiency, source: str) -> Calibrated:
    """Fit the rates of every device class among the runs, and those of the framework.

    Rates of the framework are fitted on the class with most runs and kept for the others.

    Parameters
    ----------
    runs
        Measured runs.
    start
        Rates to start from, and the framework.
    source
        What the runs are, for the fit's record of itself.

    Raises
    ------
    InputError
        No run has a measured step.
    """
    chosen = samples(runs, start)
    if not chosen:
        raise _nothing()
    efficiency = _fit_all(chosen, start)
    apart = folds(chosen, lambda each: (each.run.architecture, each.run.cluster.devices))
    left_out = [math.nan] * len(chosen)
    if len(apart) > 1:
        for part in apart:
            rest = [each for index, each in enumerate(chosen) if index not in set(part)]
            without = _fit_all(rest, start)
            for index in part:
                left_out[index] = predicted(chosen[index], without)
    after = tuple(predicted(each, efficiency) for each in chosen)
    judged = left_out if len(apart) > 1 else after
    ratios = [p / _seconds(each) for p, each in zip(judged, chosen, strict=True)]
    described = f"{len(chosen)} measured steps of {source}"
    return Calibrated(
        replace(efficiency, band=band(ratios), fitted_on=described),
        tuple(chosen),
        tuple(predicted(each, start) for each in chosen),
        after,
        tuple(left_out) if len(apart) > 1 else (),
    )


def _fit_all(chosen: Sequence[Sample], start: Efficiency) -> Efficiency:
    efficiency, free = start, DEFAULTS
    counts = Counter(each.run.device for each in chosen)
    for device, _ in counts.most_common():
        here = [each for each in chosen if each.run.device == device]
        starts = [efficiency]
        if "launch_ns" in free:
            slow = replace(start.software, launch_ns=SLOWER * start.software.launch_ns)
            starts.append(replace(efficiency, software=slow))
        found = [fit(here, each, device, free) for each in starts]
        efficiency = min(found, key=lambda each: _distance(here, each))
        free = tuple(DEVICE_BOUNDS)
    return efficiency


def _distance(chosen: Sequence[Sample], efficiency: Efficiency) -> float:
    """Mean of absolute logarithms of predicted over measured."""
    ratios = [predicted(each, efficiency) / _seconds(each) for each in chosen]
    return float(np.mean(np.abs(np.log(ratios))))


def _seconds(each: Sample) -> float:
    if each.run.step_s is None:
        raise ValueError(f"row {each.run.row} has no step")
    return each.run.step_s


def compared(runs: Iterable[Measured], efficiency: Efficiency) -> Calibrated:
    """Return the runs beside what given rates predict, with nothing fitted.

    Raises
    ------
    InputError
        No run has a measured step.
    """
    chosen = samples(runs, efficiency)
    if not chosen:
        raise _nothing()
    values = tuple(predicted(each, efficiency) for each in chosen)
    return Calibrated(efficiency, tuple(chosen), values, values, ())


def median_error(chosen: Sequence[Sample], values: Sequence[float]) -> float | None:
    """Return the median of absolute relative errors; ``None`` without predictions."""
    if not values:
        return None
    errors = [abs(p / _seconds(each) - 1) for p, each in zip(values, chosen, strict=True)]
    return float(np.median(errors))


def _nothing() -> InputError:
    expected = "at least one row with step_time_s or tokens_per_s"
    return InputError([Finding("rows", "no measured step", expected, "add measured steps")])
