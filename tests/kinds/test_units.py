"""Problems of other kinds than pipelines and their twins in another unit: equal amounts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import (
    FULL,
    Cluster,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    PlanningProblem,
    Units,
    Value,
)
from milp_plan.core.amounts import needed_and_available
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import kinds
from tests.cli.cases import call
from tests.support.amounts import alike, amounts, exponents, told

LIMIT = ("--time-limit", "30", "--quiet")
UNITS = {"s": 1, "ms": 10**3, "us": 10**6}
"""Units of time, and how many are a second; times of the files are whole seconds."""


def jobs(rng: random.Random, unit: int, time_unit: str) -> tuple[str, str]:
    """Jobs with releases, some of no time."""
    lines = ['format = "milp-plan-jobs"', "version = 1", 'name = "twins"']
    lines += [f'time_unit = "{time_unit}"', "[[pools]]", 'name = "gpu"', "devices = 2"]
    for number in range(4):
        lines += ["[[jobs]]", f'name = "j{number}"', f"release = {rng.randint(0, 4) * unit}"]
        options = [
            f'{{ technique = "t{d}", devices = {d}, time = {rng.choice((0, 1, 3, 7)) * unit} }}'
            for d in (1, 2)
        ]
        lines.append(f"options = [{', '.join(options)}]")
    return "jobs.toml", "\n".join(lines)


def rematerialisation(rng: random.Random, unit: int, time_unit: str) -> tuple[str, str]:
    """A chain with a skip and a budget that makes one operator run again."""
    operators = [
        {
            "name": f"o{n}",
            "cost_ticks": rng.randint(0, 9) * unit,
            "bytes": rng.randint(1, 5) * 2**28,
            "inputs": [f"o{i}" for i in {n - 1, max(0, n - 3)} if 0 <= i < n],
        }
        for n in range(6)
    ]
    problem = {"format": "milp-plan-rematerialisation", "version": 1, "name": "twins"}
    told = {**problem, "time_unit": time_unit, "operators": operators, "budget_bytes": 4 * 2**30}
    return "remat.json", json.dumps(told)


def local_updates(rng: random.Random, unit: int, time_unit: str) -> tuple[str, str]:
    """A line of stages of which one cut is paid for."""
    stages = [
        {
            "name": f"s{n}",
            "forward": rng.randint(1, 5) * unit,
            "backward": rng.randint(1, 5) * unit,
            "head": rng.randint(0, 2) * unit,
        }
        for n in range(4)
    ]
    problem = {"format": "milp-plan-local-updates", "version": 1, "name": "twins", "budget": 1}
    told = {**problem, "time_unit": time_unit, "micro_batches": 3, "transfer": unit}
    return "local.json", json.dumps({**told, "stages": stages})


def schedule(rng: random.Random, unit: int, time_unit: str) -> tuple[str, str]:
    """Three operators on two devices; sizes in MiB, KiB and bytes as times are in s, ms and us."""
    size_unit, per = {"s": ("MiB", 1), "ms": ("KiB", 2**10), "us": ("bytes", 2**20)}[time_unit]
    operators = [
        {"name": f"o{n}", "options": [{"name": "run", "duration_ns": {"gpu": t * unit}}]}
        for n, t in enumerate(rng.choices(range(6), k=4))
    ]
    values = [
        {"name": f"v{n}", "producer": f"o{n}", "consumers": [f"o{n + 1}"]}
        | {"bytes": rng.randint(1, 6) * per}
        for n in range(2)
    ]
    ends = [("d0", "d1"), ("d1", "d0")]
    rate = 2 * 10**9 * per // unit if unit <= per else 2 * 10**9 * per / unit
    channels = [
        {"source": a, "target": b, "latency_ns": unit, "bandwidth_bytes_per_s": int(rate)}
        for a, b in ends
    ]
    cluster = {
        "device_classes": [{"name": "gpu", "memory_bytes": 8 * per}],
        "devices": [{"name": name, "device_class": "gpu"} for name in ("d0", "d1")],
        "channels": channels,
    }
    units = {"time": time_unit, "size": size_unit}
    problem = {"format": "milp-plan-instance", "version": 1, "name": "twins", "units": units}
    told = {**problem, "cluster": cluster, "operators": operators, "values": values}
    return "schedule.json", json.dumps(told)


def every_verb(folder: Path, file: str, text: str) -> dict[str, Any]:
    """Answers of all verbs about a problem, for machines and for people."""
    instance, plan = folder / file, folder / "p.json"
    instance.write_text(text)
    records = ("--record-folder", folder / "records")
    solve = ("solve", instance, *LIMIT, *records)
    verbs: dict[str, tuple[str | Path, ...]] = {
        "info": ("info", instance),
        "solve": solve,
    }
    if call(*solve, "--plan-output", plan).exit_code == Exit.DONE:
        asked = () if "jobs" in file or "local" in file else ("--what-if", "memory+1MiB")
        verbs |= {
            "check": ("check", instance, plan),
            "explain": ("explain", instance, plan, *LIMIT, *asked),
            "diff": ("diff", plan, plan, "--instance", instance),
        }
    found: dict[str, Any] = {}
    for name, verb in verbs.items():
        people = call(*verb)
        assert not exponents(people.stdout), (name, people.stdout)
        if name in ("info", "diff"):
            found[f"{name} for people"] = told(people.stdout)
        answers = [json.loads(line) for line in call(*verb, "--json").stdout.splitlines()]
        found[name] = [amounts(in_units(answer)) for answer in answers]
    return found


def in_units(answer: Any) -> Any:
    """Leave exact integers out where the answer says them in units beside: ticks may differ."""
    if isinstance(answer, list):
        return [in_units(entry) for entry in answer]
    if not isinstance(answer, dict):
        return answer
    raw = {name.removesuffix("_in_unit") for name in answer if name.endswith("_in_unit")}
    raw |= {"reached", "baselines", "best_baseline", "bounds", "details", "about", "facts", "why"}
    raw |= {"violations", "infeasibility", "moves"}
    return {name: in_units(entry) for name, entry in answer.items() if name not in raw}


KNOWN = {kind.name.replace("-", "_") for kind in kinds()}
MAKERS = tuple(
    make
    for make in (jobs, rematerialisation, local_updates, schedule)
    if make.__name__ in KNOWN  # a kind may be removed
)
SEEDS = [pytest.param(s, marks=[pytest.mark.slow] if s else []) for s in range(10)]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_problem_and_its_twins(
    seed: int, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for unit, per_second in UNITS.items():
        folder = tmp_path / unit
        folder.mkdir()
        found[unit] = every_verb(folder, *make(random.Random(seed), per_second, unit))
    for unit in UNITS:
        alike(found["s"], found[unit], unit)


def test_what_is_needed_and_what_there_is_look_different() -> None:
    """Both were 13.0385 GiB where a byte was missing, in the proof that there is no plan."""
    need, have = 14 * 10**9, 14 * 10**9 - 1
    in_bytes = Units(size="bytes")
    assert needed_and_available(in_bytes, need, have) == ("14000000000 B", "13999999999 B")
    assert needed_and_available(in_bytes, need, 10**9) == ("13.0385 GiB", "953.674 MiB")
    own = Units(size="unspecified", size_scale=10)
    needs, there = needed_and_available(own, need, have)
    assert needs == "1400000000 (unit unspecified)"
    assert there == "1399999999.9 (unit unspecified)"
    gib = Units(size="GiB", size_scale=2**30)
    assert needed_and_available(gib, need, have) == ("14000000000 B", "13999999999 B")


def test_a_proof_that_nothing_fits_says_which_byte_is_missing() -> None:
    head = Operator("head", (Option("r", {"G": 5}),))
    cluster = Cluster((DeviceClass("G", 14 * 10**9 - 1),), (Device("g0", "G", 14 * 10**9 - 1),), ())
    value = Value("out", "head", (), {FULL: 14 * 10**9})
    problem = PlanningProblem("one byte", ComputationGraph((head,), (value,)), cluster)
    reason = solve(problem, Settings(time_limit_s=60.0)).infeasible_reason
    assert reason is not None
    assert "needs at least 14000000000 B" in reason
    assert "more than 13999999999 B" in reason
