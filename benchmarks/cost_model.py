"""The cost model held against published measurements: fitted to some batches, asked about another.

Measured: training steps of multi-layer perceptrons with data parallelism on 1, 2 and 4 GPUs, as
published with DistIR (Santhanam et al., arXiv 2111.05426).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import rankdata

from milp_plan.cost.calibration import Calibration, MeasuredStep, calibrate, least_deviations

GROUPS = (1, 2, 4)
HELD_OUT = 4096
"""Batch that nothing is fitted to."""

WORD = 4
"""Bytes of a number."""

FITTED_DEVICES = 8
"""Devices up to which degrees are fitted."""

RINGS = (2, 4, 8)
"""Sizes of groups among them."""

TOP, RATE = 5, "throughput"
"""Configurations that are compared as sets; the column of the published grid."""

Row = dict[str, float]


def rows_of(file: Path) -> list[Row]:
    """Read the published table."""
    with file.open(encoding="utf-8") as lines:
        return [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(lines)]


def step_of(row: Row) -> MeasuredStep:
    """Return what one device does: per layer three products, two activations and an update.

    Weights are ``hidden x hidden``, activations ``batch / gpus x hidden``.
    """
    gpus, layers, hidden = int(row["gpus"]), int(row["layers"]), int(row["hidden"])
    acts, weights = int(row["batch"]) // gpus * hidden, hidden * hidden
    kernels = (
        (2 * acts * hidden, WORD * (2 * acts + weights), 3 * layers),  # forward, two of backward
        (0, WORD * 2 * acts, layers),  # activation function
        (0, WORD * 3 * acts, layers),  # and its gradient
        (0, WORD * 3 * weights, layers),  # update: weights and gradients read, weights written
    )
    reduced = ((WORD * weights, layers),)
    return MeasuredStep(kernels, gpus, reduced, round(row["measured_ms"] * 1e6))


def fitted(rows: Sequence[Row]) -> Calibration:
    """Fit to all batches but the one that is held out."""
    return calibrate([step_of(row) for row in rows if row["batch"] != HELD_OUT])


def predictions(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Predict the batch that is held out."""
    model = fitted(rows)
    return [
        {
            "gpus": int(row["gpus"]),
            "layers": int(row["layers"]),
            "batch": int(row["batch"]),
            "hidden": int(row["hidden"]),
            "measured": row["measured_ms"],
            "predicted": model.predict_ns(step_of(row)) / 1e6,
            "simulated": row["simulated_ms"],
        }
        for row in rows
        if row["batch"] == HELD_OUT
    ]


def spearman(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> float:
    """Correlation of ranks; equal numbers share the mean of theirs."""
    a, b = rankdata(first), rankdata(second)
    a, b = a - a.mean(), b - b.mean()
    return float((a @ b) / ((a @ a) * (b @ b)) ** 0.5)


def shares(row: Row) -> list[float]:
    """Return what a step by degrees is made of, but for rates.

    Compute, sends, weights, then rings that sum gradients and rings that sum activations, by size.

    D, T, P: data, tensor, pipeline degree; M micro-batches; everything per sample of the batch. A
    pipeline is busy for M of M + P - 1 turns. Rings send 2(n-1)/n of what they sum: gradients of a
    stage's part of the weights, and activations of each replica. Groups of different sizes use
    different links, as in :mod:`milp_plan.cost.calibration`; larger groups than were seen run at
    the rate of the largest.
    """
    data, tensor = row["dp_degree"], row["hp_degree"]
    pipeline, batches = row["pp_degree"], row["num_microbatches"]
    turns = (batches + pipeline - 1) / batches
    gradients = 2 * (data - 1) / data / (tensor * pipeline)
    activations = 2 * (tensor - 1) / tensor / (data * pipeline) * turns
    return [
        turns / (data * tensor * pipeline),
        (pipeline > 1) * turns / data,
        (batches + pipeline - 1) / (pipeline * tensor),  # weights are read for each micro-batch
        *(gradients * (min(data, RINGS[-1]) == size) for size in RINGS),
        *(activations * (min(tensor, RINGS[-1]) == size) for size in RINGS),
    ]


def family(row: Row) -> tuple[bool, ...]:
    """Which of data, tensor and pipeline degree are more than one."""
    return tuple(row[name] > 1 for name in ("dp_degree", "hp_degree", "pp_degree"))


def degrees(file: Path) -> dict[str, Any]:
    """Fit rates to the degrees of few devices, and choose degrees for many.

    The published grid is simulated, not measured; its throughputs are what choices are worth.
    """
    rows = rows_of(file)
    names = ("dp_degree", "hp_degree", "pp_degree", "num_microbatches")
    devices = [int(row["dp_degree"] * row["hp_degree"] * row["pp_degree"]) for row in rows]
    parts, times = np.array([shares(row) for row in rows]), 1 / np.array([r[RATE] for r in rows])
    few = np.array(devices) <= FITTED_DEVICES
    rates = least_deviations(parts[few], times[few])
    predicted = parts @ rates
    found = []
    for count in sorted(set(devices)):
        here = [at for at, number in enumerate(devices) if number == count]
        ours, best = (sorted(here, key=order.__getitem__) for order in (predicted, times))
        found.append(
            {
                "devices": count,
                "configurations": len(here),
                "best": "x".join(f"{rows[best[0]][name]:g}" for name in names),
                "ours": "x".join(f"{rows[ours[0]][name]:g}" for name in names),
                "worth": float(times[best[0]] / times[ours[0]]),
                "same": len(set(ours[:TOP]) & set(best[:TOP])) if len(here) > TOP else None,
                "spearman": spearman(predicted[here], times[here]) if len(here) > 1 else None,
                "median": float(np.median(abs(predicted[here] / times[here] - 1))),
                "same_family": family(rows[ours[0]]) == family(rows[best[0]]),
            }
        )
    return {"choices": found}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Fit and predict; errors are relative to what was measured."""
    if "grid" in case:
        return degrees(Path(os.environ.get("MILP_PLAN_BENCHMARKS", "")) / case["grid"])
    rows = rows_of(Path(os.environ.get("MILP_PLAN_BENCHMARKS", "")) / case["file"])
    model, found = fitted(rows), predictions(rows)
    device = model.device
    groups = [_group(gpus, [row for row in found if row["gpus"] == gpus]) for gpus in GROUPS]
    measured = [row["measured"] for row in found]
    return {
        "tflops": device.peak_flops_per_s / 1e12,
        "memory_gb_per_s": device.memory_bytes_per_s / 1e9,
        "launch_us": device.launch_ns / 1e3,
        "rings": [
            {
                "gpus": n,
                "gb_per_s": link.bandwidth_bytes_per_s / 1e9,
                "us": link.latency_ns / 1e3,
            }
            for n, link in sorted(model.links.items())
        ],
        "groups": groups,
        "steps": found,
        "spearman": spearman([row["predicted"] for row in found], measured),
        "spearman_simulated": spearman([row["simulated"] for row in found], measured),
    }


def _group(gpus: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    theirs = [abs(row["simulated"] / row["measured"] - 1) for row in rows]
    return {
        "gpus": gpus,
        "rows": len(rows),
        "median": median(errors),
        "largest": max(errors),
        "median_simulated": median(theirs),
    }


def present(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rates, errors and every prediction."""
    row, grid = rows
    names = ("rings", "groups", "steps", "spearman", "spearman_simulated")
    return {name: row[name] for name in names} | {"rates": [row], "choices": grid["choices"]}


def complaints(rows: list[dict[str, Any]]) -> list[str]:
    """What contradicts the page."""
    row, grid = rows
    bad = [group for group in row["groups"] if group["median"] > 0.03]
    said = [f"{group['gpus']} GPUs: median error {group['median']:.1%}" for group in bad]
    said += [] if row["spearman"] >= 0.99 else [f"Spearman {row['spearman']:.3f}"]
    return said + [
        f"{choice['devices']} devices: {choice['ours']}, published best {choice['best']}"
        for choice in grid["choices"]
        if choice["worth"] < 0.9
        or (choice["devices"] >= FITTED_DEVICES and not choice["same_family"])
    ]
