"""Fit the shipped rates of training steps: ``python benchmarks/training_fit.py``.

Writes ``efficiency.json`` of the kind ``training`` from the sets of :mod:`training_rows`, with the
error band of runs whose model or cluster size was left out of the fit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from training_rows import SETS

from milp_plan.kinds.training.calibrate import (
    DEVICE_BOUNDS,
    Sample,
    band,
    fit,
    folds,
    predicted,
    samples,
)
from milp_plan.kinds.training.efficiency import MARKER, SHIPPED, DeviceRates, Efficiency, Software

Sets = dict[str, list[Sample]]

FOLDER = "measured-training"
MOST = 360
"""Runs of a set that are fitted, spread over its file."""

START = {
    "megatron-2021": Software(
        *("megatron-2021", 20_000.0),
        overlap=0.05,
        scattered_sends=True,
        fused_attention=False,
        dropout=True,
        gradient_bytes=2,
    ),
    "megatron-deepspeed": Software(
        *("megatron-deepspeed", 20_000.0),
        overlap=0.05,
        scattered_sends=True,
        fused_attention=False,
        dropout=True,
        gradient_bytes=2,
    ),
    "nanotron": Software(
        *("nanotron", 30_000.0),
        sharded_overlap=False,
        crossing_ns=500_000.0,
        stall_ns=1e9,
        logit_bytes=10,
        gathered_activations=True,
        activation_factor=1.4,
    ),
    "fsdp": Software("fsdp", 20_000.0),
    "megatron-core": Software("megatron-core", 8_000.0, overlap=0.4, overlapped_sends=True),
}
"""What is known of each framework, and where its fit starts."""

H100 = DeviceRates(0.7, 0.7, 0.5, 0.8, 0.8, 0.8, 20_000.0, 3_000.0)
"""H100 under Megatron-Core: assumed but for experts, since dense rows name no micro-batch."""


@dataclass(frozen=True)
class Recipe:
    """One fit: a framework on a device class.

    Parameters
    ----------
    software, device
        Framework and device class.
    sets
        Names of the sets, and the weight of a run of each; runs on that device class count.
    free
        What is fitted.
    chooses
        Whether runs near the fastest of their group weigh more.
    """

    software: str
    device: str
    sets: tuple[tuple[str, float], ...]
    free: tuple[str, ...]
    chooses: bool = False


_RATES = tuple(name for name in DEVICE_BOUNDS if name != "grouped")
_DENSE = (*_RATES, "launch_ns", "step_ns", "overlap")
_2021 = (
    ("vTrain, one node", 1.0),
    ("vTrain, 64 to 512", 4.0),
    ("Megatron SC21", 8.0),
    ("Korthikanti et al.", 8.0),
)
_FOUNDRY = (("llm-foundry", 1.0),)
_BRIDGE = (("Megatron-Bridge bf16", 1.0),)
AS_UNDER = {"megatron-core": dict.fromkeys(("A100", "A100-40GB"), ("megatron-2021", "A100"))}
"""Framework -> device class without measured runs -> the framework and class with its rates."""

RECIPES = (
    Recipe("megatron-2021", "A100", _2021, _DENSE),
    Recipe("megatron-deepspeed", "A100", (("BLOOM", 1.0),), _DENSE),
    Recipe(
        *("nanotron", "H100", (("Ultrascale", 1.0),)),
        (*_DENSE, "crossing_ns", "stall_ns"),
        chooses=True,
    ),
    Recipe("fsdp", "H100", _FOUNDRY, _DENSE),
    Recipe("fsdp", "A100", _FOUNDRY, _RATES),
    Recipe("fsdp", "A100-40GB", _FOUNDRY, _RATES),
    Recipe(
        *("megatron-core", "B200", (("SimuMax", 1.0), *_BRIDGE)),
        (*_RATES, "launch_ns", "step_ns", "grouped"),
    ),
    Recipe("megatron-core", "H100", _BRIDGE, ("grouped",)),
    Recipe("megatron-core", "B300", _BRIDGE, ("grouped", "network")),
    Recipe("megatron-core", "GB200", _BRIDGE, ("grouped",)),
    Recipe("megatron-core", "GB300", _BRIDGE, ("grouped",)),
)
"""Fits in their order; what an earlier one of the same framework found stays."""


def folder() -> Path:
    """Return the folder of the measured runs."""
    return Path(os.environ.get("MILP_PLAN_BENCHMARKS", "")) / FOLDER


def load(names: Sequence[str], efficiency: Efficiency) -> Sets:
    """Return the runs of sets with their work."""
    return {name: samples(SETS[name].read(folder()), efficiency) for name in names}


def start(software: str) -> Efficiency:
    """Return where the fits of a framework begin."""
    return Efficiency({"H100": H100} if software == "megatron-core" else {}, START[software])


def sets_of(software: str) -> list[str]:
    """Return the names of the sets that a framework is fitted to."""
    return list(
        dict.fromkeys(
            name for recipe in RECIPES if recipe.software == software for name, _ in recipe.sets
        )
    )


def spread(chosen: Sequence[Sample], most: int) -> list[Sample]:
    """Return at most this many runs, evenly spaced."""
    if len(chosen) <= most:
        return list(chosen)
    return [chosen[i * len(chosen) // most] for i in range(most)]


def fitted(software: str, sets: Sets, begin: Efficiency | None = None) -> Efficiency:
    """Return the fit of a framework to runs of its sets."""
    efficiency = begin or start(software)
    for recipe in RECIPES:
        if recipe.software != software:
            continue
        chosen: list[Sample] = []
        weights: list[float] = []
        for name, weight in recipe.sets:
            runs = [each for each in sets.get(name, ()) if each.run.device == recipe.device]
            runs = spread(runs, MOST)
            near = nearness(runs) if recipe.chooses else [1.0] * len(runs)
            chosen += runs
            weights += [weight * each for each in near]
        if chosen:
            efficiency = fit(chosen, efficiency, recipe.device, recipe.free, weights)
    return efficiency


def nearness(runs: Sequence[Sample]) -> list[float]:
    """Return the fastest time of the group of each run over its own."""
    best: dict[object, float] = {}
    for each in runs:
        best[group_key(each)] = min(best.get(group_key(each), np.inf), seconds(each))
    return [best[group_key(each)] / seconds(each) for each in runs]


def group_key(each: Sample) -> tuple[object, ...]:
    """Return what runs have in common among which one chooses: model, devices, batch."""
    run = each.run
    return run.architecture, run.cluster, run.configuration.global_batch, run.sequence


def seconds(each: Sample) -> float:
    """Return the measured seconds of a step."""
    if each.run.step_s is None:
        raise ValueError(f"row {each.run.row} has no time")
    return each.run.step_s


BY_MODEL: Callable[[Sample], object] = lambda each: (  # noqa: E731
    each.run.architecture.hidden,
    len(each.run.architecture.blocks),
)
BY_SIZE: Callable[[Sample], object] = lambda each: each.run.cluster.devices  # noqa: E731


def left_out(
    software: str, sets: Sets, name: str, key: Callable[[Sample], object]
) -> list[float] | None:
    """Return predicted seconds of a set's runs, each by a fit without its model or size.

    ``None`` if the set has one model, or one size, alone.
    """
    runs = sets[name]
    parts = folds(runs, key)
    if len(parts) < 2:
        return None
    found = [0.0] * len(runs)
    for part in parts:
        gone = {key(runs[i]) for i in part}
        rest = {other: [each for each in of if key(each) not in gone] for other, of in sets.items()}
        without = fitted(software, rest)
        for i in part:
            found[i] = predicted(runs[i], without)
    return found


def document() -> dict[str, Any]:
    """Return the content of the shipped file."""
    entries = {}
    for software in START:
        sets = load(sets_of(software), start(software))
        efficiency = fitted(software, sets)
        ratios = []
        for name, runs in sets.items():
            found = left_out(software, sets, name, BY_MODEL)
            ratios += [p / seconds(s) for p, s in zip(found or (), runs, strict=bool(found))]
        entry = asdict(efficiency.software)
        entry.pop("name")
        entry["devices"] = {name: asdict(rates) for name, rates in efficiency.devices.items()}
        entry["band"] = asdict(band(ratios))
        counts = ", ".join(f"{name} ({len(runs)})" for name, runs in sets.items())
        entry["fitted_on"] = f"measured steps of {counts}"
        entry["fitted"] = {name: list(names) for name, names in efficiency.fitted.items()}
        for device, (other, named) in AS_UNDER.get(software, {}).items():
            entry["devices"][device] = entries[other]["devices"][named]
            origin = f"{other}, fitted to {entries[other]['fitted_on']}"
            entry.setdefault("as_under", {})[device] = origin
        entries[software] = entry
    return {"format": MARKER, "version": 1, "software": _rounded(entries)}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    made = document()
    SHIPPED.write_text(json.dumps(made, indent=2) + "\n")
    for name, entry in made["software"].items():
        print(name, entry["band"])
