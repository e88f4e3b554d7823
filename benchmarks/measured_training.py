"""Predicted against measured training steps: errors, and what choosing by predictions costs.

Regret is how much slower the chosen configuration is than the best measured one of its group: runs
of one model on as many devices with one batch, of which at least five ran. We choose the fastest by
prediction; where a set has measured peaks, among those that fit by our memory (all, if none does).
Rules: R1 the smallest tensor, then pipeline degree, then the largest micro-batch; R2 the smallest
pipeline, then tensor degree, then the largest micro-batch; random is the mean over a group.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from measured_figures import predicted_measured, regrets
from scipy.stats import spearmanr
from training_fit import BY_MODEL, BY_SIZE, folder, group_key, left_out, load, seconds, sets_of
from training_rows import SETS, RowSet

from milp_plan.kinds.training import Configuration, Schedule, api
from milp_plan.kinds.training.calibrate import Sample, predicted
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.efficiency import shipped
from milp_plan.kinds.training.measured import Measured
from milp_plan.kinds.training.memory import MARGIN, device_memory
from milp_plan.kinds.training.step import derive

LEAST = 5
"""Runs of a group among which one chooses."""

Row = dict[str, Any]


SCHEDULES = {
    "1f1b": ("1f1b", 1),
    "1f1b-interleaved": ("interleaved", 2),
    "zbb": ("zb-h1", 1),
    "zbv": ("zb-v", 2),
    "v-half": ("v-half", 2),
    "v-min": ("v-min", 2),
}
"""Name in Primus -> ours, and virtual stages."""


def schedules(case: Row) -> Row:
    """Predict Primus' schedules of Llama-2 7B on eight MI300X; its batch is not printed."""
    path = folder() / "runs.csv"
    if not path.is_file():
        return _absent(path)
    with path.open(newline="", encoding="utf-8") as lines:
        rows = [
            row
            for row in csv.DictReader(lines)
            if "Primus" in row["source"] and row["model"] == "Llama2-7B"
        ]
    micro_batches, sequence = case["micro_batches"], case["sequence"]
    problem = api.training_problem(
        *("llama2-7b", "1x8xMI300X"), global_batch=micro_batches, sequence=sequence
    )
    costs, found = PlanCosts(problem), []
    for row in rows:
        notes = dict(part.split("=") for part in re.findall(r"schedule=[\w-]+", row["notes"]))
        memory = re.search(r"max memory ([\d.]+) GB", row["notes"])
        schedule, virtual = SCHEDULES[notes["schedule"]]
        configuration = Configuration(
            pipeline=8, micro_batches=micro_batches, virtual=virtual, schedule=Schedule(schedule)
        )
        step = derive(configuration, costs.priced(configuration))
        closed = costs.step(configuration).total_ns
        tokens = micro_batches * sequence / 8
        found.append(
            {
                "schedule": notes["schedule"],
                "measured": float(row["tokens_per_s_per_gpu"]),
                "closed": tokens / (closed / 1e9),
                "replayed": tokens / (step.step_ns / 1e9),
                "measured_gb": float(memory[1]) if memory else None,
                "gb": max(step.peaks) / 1e9,
            }
        )
    return {"schedules": found}


def _absent(path: Path) -> Row:
    reason = f"no {path}: set MILP_PLAN_BENCHMARKS to the public benchmarks"
    return {"stop": "absent", "reason": reason}


def measure(case: Row) -> Row:
    """Predict the runs of one set by the shipped rates, and by rates fitted without them."""
    if case["set"] == "Primus":
        return schedules(case)
    chosen = SETS[case["set"]]
    if not (folder() / chosen.file).is_file():
        return _absent(folder() / chosen.file)
    efficiency = shipped(chosen.software)
    names = sets_of(chosen.software)
    sets = load(list(dict.fromkeys((*names, chosen.name))), efficiency)
    runs = sets[chosen.name]
    known = any(each.run.memory_bytes for each in runs)
    fitting = [not known or fits(each.run, chosen) for each in runs]
    shipped_seconds = [predicted(each, efficiency) for each in runs]
    row: Row = {
        "fitted": scores(runs, shipped_seconds, fitting),
        "models": None,
        "sizes": None,
        "rules": rules(runs),
        "memory": memory(chosen),
        "points": " ".join(
            f"{seconds(each):.4g},{value:.4g}"
            for each, value in zip(runs, shipped_seconds, strict=True)
        ),
    }
    if chosen.name not in names:
        return row
    for member, key in (("models", BY_MODEL), ("sizes", BY_SIZE)):
        found = left_out(chosen.software, sets, chosen.name, key)
        row[member] = scores(runs, found, fitting) if found else None
    return row


def fits(run: Measured, chosen: RowSet, margin: float = MARGIN) -> bool:
    """Whether a run fits by our memory, with the margin that is left free."""
    room = run.cluster.memory_bytes * (1 - margin)
    return most_memory(run, chosen) <= room


def most_memory(run: Measured, chosen: RowSet) -> int:
    """Return the bytes of the device with the most, by our memory."""
    software = shipped(chosen.software).software
    uses = device_memory(run.architecture, run.cluster, run.configuration, run.sequence, software)
    return max(use.total_bytes for use in uses)


def groups_of(runs: Sequence[Sample]) -> list[list[int]]:
    """Return the indices of runs among which one chooses."""
    found: dict[object, list[int]] = {}
    for index, each in enumerate(runs):
        found.setdefault(group_key(each), []).append(index)
    return [group for group in found.values() if len(group) >= LEAST]


def scores(runs: Sequence[Sample], values: Sequence[float], fitting: Sequence[bool]) -> Row:
    """Errors, rank correlation and regret of predicted seconds."""
    measured = [seconds(each) for each in runs]
    errors = [abs(p / y - 1) for p, y in zip(values, measured, strict=True)]
    ranks, regrets = [], []
    for group in groups_of(runs):
        ranks.append(_spearman([values[i] for i in group], [measured[i] for i in group]))
        admitted = [i for i in group if fitting[i]] or group
        ours = min(admitted, key=values.__getitem__)
        regrets.append(measured[ours] / min(measured[i] for i in group) - 1)
    return {
        "rows": len(runs),
        "error": median(errors),
        "spearman_all": _spearman(values, measured),
        "spearman": mean(each for each in ranks if each is not None) if ranks else None,
        **_regret(regrets),
    }


def _spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the rank correlation; ``None`` where all values of one side are equal."""
    if min(len(set(first)), len(set(second))) < 2:
        return None
    return float(spearmanr(first, second).statistic)


def _regret(regrets: Sequence[float]) -> Row:
    if not regrets:
        return dict.fromkeys(("groups", "hits", "mean", "median", "largest"))
    return {
        "groups": len(regrets),
        "hits": sum(each == 0 for each in regrets),
        "mean": mean(regrets),
        "median": median(regrets),
        "largest": max(regrets),
    }


RULES: dict[str, Callable[[Sample], tuple[int, int, int]]] = {
    "R1": lambda each: (
        each.run.configuration.tensor,
        each.run.configuration.pipeline,
        -each.run.configuration.micro_batch,
    ),
    "R2": lambda each: (
        each.run.configuration.pipeline,
        each.run.configuration.tensor,
        -each.run.configuration.micro_batch,
    ),
}
"""Rule -> what it makes small, most important first; ties go to the faster run."""


def rules(runs: Sequence[Sample]) -> dict[str, Row]:
    """Return the regret of both rules and of a random choice."""
    measured = [seconds(each) for each in runs]
    groups = groups_of(runs)
    found = {}
    for name, order in RULES.items():
        found[name] = _regret(
            [
                measured[min(group, key=lambda i: (order(runs[i]), measured[i]))]
                / min(measured[i] for i in group)
                - 1
                for group in groups
            ]
        )
    found["random"] = _regret(
        [mean(measured[i] for i in group) / min(measured[i] for i in group) - 1 for group in groups]
    )
    return found


def memory(chosen: RowSet) -> Row:
    """Compare our memory with measured peaks, and with which runs crashed."""
    runs = chosen.read(folder())
    ran = [run for run in runs if not run.crashed]
    crashed = [run for run in runs if run.crashed]
    peaks = [run for run in ran if run.memory_bytes]
    errors = [abs(most_memory(run, chosen) / (run.memory_bytes or 1) - 1) for run in peaks]
    return {
        "peaks": len(peaks),
        "peak_error": median(errors) if errors else None,
        "ran": len(ran),
        "crashed": len(crashed),
        "ran_fit": mean(fits(run, chosen) for run in ran),
        "ran_fill": mean(fits(run, chosen, 0) for run in ran),
        "crashed_refused": mean(not fits(run, chosen) for run in crashed) if crashed else None,
    }


def present(rows: list[Row]) -> Row:
    """Lay out tables: held-out and fitted errors, choices, memory."""
    done = _sets(rows)
    return {
        "schedules": [each for row in rows for each in _ranked(row.get("schedules", []))],
        "errors": [
            {"set": row["set"], "rates": label, **row[member]}
            for row in done
            for member, label in LABELS.items()
            if row[member]
        ],
        "choices": [each for row in done if row["fitted"]["groups"] for each in _choices(row)],
        "targets": [each for row in done for each in _targets(row)],
        "memories": [{"set": row["set"], **row["memory"]} for row in done],
        "rates": [each for row in done for each in _rates(row)],
        "missing": "; ".join(row["reason"] for row in rows if row.get("stop")) or "none",
    }


def _sets(rows: list[Row]) -> list[Row]:
    """Return the rows of sets whose file was there."""
    return [row for row in rows if "fitted" in row]


def _ranked(found: list[Row]) -> list[Row]:
    """Return schedules with the rank of each by speed and by memory, measured and predicted."""
    for name, rank, sign in (
        ("measured", "rank", -1),
        ("closed", "closed_rank", -1),
        ("replayed", "replayed_rank", -1),
        ("measured_gb", "gb_rank", 1),
        ("gb", "our_gb_rank", 1),
    ):
        order = sorted(found, key=lambda each: sign * each[name])
        for place, each in enumerate(order, 1):
            each[rank] = place
    return found


LABELS = {
    "models": "models left out",
    "sizes": "cluster sizes left out",
    "fitted": "shipped",
}


def _choices(row: Row) -> list[Row]:
    found = [
        {"set": row["set"], "by": f"ours, {label}", **row[member]}
        for member, label in LABELS.items()
        if row[member]
    ]
    published = row.get("calculon")
    if published:
        found.append({"set": row["set"], "by": "Calculon (quoted)", **published})
    return found + [{"set": row["set"], "by": name, **of} for name, of in row["rules"].items()]


def _rates(row: Row) -> list[Row]:
    efficiency = shipped(SETS[row["set"]].software)
    return [
        {
            "software": efficiency.software.name,
            "device": device,
            "launch": efficiency.software.launch_ns / 1e3,
            **{
                name: getattr(rates, name)
                for name in ("matrix", "grouped", "attention", "memory", "node", "network")
            },
            "latency": rates.latency_ns / 1e3,
            "kernel": rates.kernel_ns / 1e3,
        }
        for device, rates in efficiency.devices.items()
        if row.get("first_of_software")
    ]


FARTHEST = 0.25
"""Median error of shipped rates from which the page would be wrong to call them fitted."""


def complaints(rows: list[Row]) -> list[str]:
    """Say which sets the shipped rates do not describe."""
    return [
        f"{row['set']}: median error {row['fitted']['error']:.1%} of the shipped rates"
        for row in _sets(rows)
        if row["fitted"]["error"] > FARTHEST
    ]


def _targets(row: Row) -> list[Row]:
    """Return what was aimed at beside what is reached."""
    found = []
    for name, aim in row.get("targets", {}).items():
        values = {member: (row[member] or {}).get(name) for member in LABELS}
        held = values["models"] if values["models"] is not None else values["fitted"]
        met = held >= aim if name == "spearman" else held <= aim
        found.append(
            {
                "set": row["set"],
                "figure": FIGURES[name],
                "aim": f"{aim:.2f}" if name == "spearman" else f"{aim:.0%}",
                **{
                    member: None
                    if value is None
                    else f"{value:.3f}"
                    if name == "spearman"
                    else f"{value:.2%}"
                    for member, value in values.items()
                },
                "met": met,
            }
        )
    return found


FIGURES = {
    "error": "median error",
    "spearman": "Spearman in groups",
    "mean": "mean regret",
    "median": "median regret",
}
"""Member of scores -> its name on the page."""


def figures(rows: list[Row]) -> Row:
    """Predicted against measured, and regret by who chooses."""
    done = _sets(rows)
    points = {
        row["set"]: [[float(n) for n in pair.split(",")] for pair in row["points"].split()]
        for row in done
    }
    bars = {
        row["set"]: {
            each["by"]: each["mean"] for each in _choices(row) if each["by"] != "ours, shipped"
        }
        for row in done
        if row["fitted"]["groups"]
    }
    made: Row = {}
    for suffix in ("png", "svg"):
        made[f"predicted.{suffix}"] = predicted_measured(points)
        made[f"regret.{suffix}"] = regrets(bars)
    return made
