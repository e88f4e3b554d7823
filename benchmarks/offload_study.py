"""What offload lanes are worth: makespan without and with them, under the same memory.

Two tables. The pipeline table plans one stage per device, with input and weight gradients apart,
for several memory limits and lane times, once with every activation staying on its device and once
with activations that may travel to the host and back; idle time is what the makespan exceeds a
device's work by. The chain table proves the trade-off of one device: twelve layers
forward and backward, one outbound and one inbound lane.

``python benchmarks/offload_study.py`` writes ``results/offload.md``, ``.json`` and ``.png``. Plans
are carried to more memory and to faster lanes, after a check there; bounds to less memory and to
slower lanes.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import highspy
from milp_plan.run.offload import plan_offload
from pages import DASH, provenance, seconds, share, table
from suites import REPOSITORY

from milp_plan import __version__
from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.check import verify
from milp_plan.core import Plan, PlanningProblem
from milp_plan.models.registry import get
from milp_plan.pipeline import Lanes, chain_problem, offload_problem, place, uniform
from milp_plan.run import Settings
from milp_plan.run.model import Solver
from milp_plan.run.settings import Clock

STAGES, BATCHES = 4, 8
CAPS = (1, 2, 3, 4)
LANE_TIMES = (Fraction(1, 2), Fraction(1), Fraction(2))
"""Ticks of a journey, in forward passes."""

CHAIN = tuple(
    (Fraction(x), m) for x, m in (("1.5", 7), ("3", 8), ("3", 7), ("5", 8), ("5", 7), ("8", 7))
)
LAYERS = 12


@dataclass
class Row:
    """One memory limit and lane time; times in forward passes."""

    cap: int
    lane: float
    stay: float | None
    stay_bound: float
    travel: float | None
    bound: float
    rule: float | None
    journeys: int
    by: str
    seconds: float
    valid: bool

    def idle(self, makespan: float | None) -> float | None:
        """Idle time of a device."""
        return None if makespan is None else makespan - 3 * BATCHES

    @property
    def cut(self) -> float | None:
        """Part of the idle time that goes."""
        before, after = self.idle(self.stay), self.idle(self.travel)
        return None if before is None or after is None or not before else 1 - after / before


@dataclass
class Link:
    """One row of the chain."""

    lane: float
    memory: int
    makespan: float | None
    bound: float | None
    proved: bool
    seconds: float


def problem_of(cap: int, lane: Fraction) -> tuple[PlanningProblem, int]:
    """One case, and its ticks per forward pass."""
    template, activation = uniform(STAGES, BATCHES, (2, 2, 2))
    ticks = int(2 * lane)
    name = f"offload-{STAGES}x{BATCHES}-cap{cap}-lane{float(lane):g}"
    problem = offload_problem(
        name, template, place("line", STAGES), Lanes(ticks, ticks), memory_bytes=cap * activation
    )
    return problem, 2


def pipelines(limit_s: float, seed: int) -> list[Row]:
    """Slow lanes first and little memory first, so that plans carry over."""
    found: list[Row] = []
    plans: dict[tuple[int, Fraction], Plan] = {}
    for lane in sorted(LANE_TIMES, reverse=True):
        for cap in CAPS:
            problem, scale = problem_of(cap, lane)
            orders = [plan for (c, x), plan in plans.items() if c <= cap and x >= lane]
            settings = Settings(time_limit_s=limit_s, seed=seed)
            run, answer = plan_offload(problem, settings, orders[::-1][:4])
            plan = answer.plan
            if plan is not None:
                plans[cap, lane] = plan
            verdict = None if plan is None else verify(problem, plan)
            away = 0 if plan is None else sum(r.devices[0].startswith("host") for r in plan.runs)
            found.append(
                Row(
                    cap, float(lane), _units(run.stay.value, scale),
                    run.stay.bound / scale, _units(answer.value, scale),
                    (answer.bound or 0) / scale, _units(run.rule, scale), away,
                    run.found_by, answer.seconds,
                    bool(verdict and verdict.ok and verdict.value == answer.value),
                )
            )  # fmt: skip
            print(found[-1], file=sys.stderr, flush=True)
    _carry_bounds(found)
    return found


def _carry_bounds(rows: list[Row]) -> None:
    """A bound holds with less memory and slower lanes; one without journeys with less memory."""
    for row in rows:
        for other in rows:
            if other.cap >= row.cap and other.lane <= row.lane:
                row.bound = max(row.bound, other.bound)
            if other.cap >= row.cap:
                row.stay_bound = max(row.stay_bound, other.stay_bound)


def _units(ticks: int | None, scale: int) -> float | None:
    return None if ticks is None else ticks / scale


def chain(limit_s: float) -> list[Link]:
    """Prove the chain's makespans with the whole model."""
    formulation = get("pipeline_offload").formulation
    assert formulation is not None
    found = []
    for lane, memory in CHAIN:
        ticks = int(2 * lane)
        problem = chain_problem(
            f"chain-{float(lane):g}-{memory}", LAYERS, (2, 4), Lanes(ticks, ticks),
            memory_bytes=memory, time_scale=2,
        )  # fmt: skip
        began = time.perf_counter()
        solver = Solver(formulation, formulation.Options())
        answer = solver.run(problem, Guide(), Limits(time_s=limit_s), Clock(limit_s))
        took = time.perf_counter() - began
        proved = answer.value is not None and answer.value == answer.bound
        found.append(
            Link(
                float(lane), memory, _units(answer.value, 2), _units(answer.bound, 2), proved, took
            )
        )
        print(found[-1], file=sys.stderr, flush=True)
    return found


# -- the page ------------------------------------------------------------------------------------


def number(amount: float | None) -> str:
    """Write a time in forward passes."""
    return DASH if amount is None else f"{amount:g}"


def page(rows: list[Row], links: list[Link], record: dict[str, Any], command: str) -> str:
    """Return the page."""
    about = " ".join((__doc__ or "").split("\n\n")[1].split())
    lines = [
        [
            str(row.cap), number(row.lane), number(row.stay), number(row.stay_bound),
            number(row.travel), number(row.bound), number(row.rule), share(row.cut),
            str(row.journeys), row.by, "ok" if row.valid else "FAILS", seconds(row.seconds),
        ]
        for row in sorted(rows, key=lambda r: (r.cap, r.lane))
    ]  # fmt: skip
    headings = ["memory", "lane", "all stay", "bound", "may travel", "bound", "rule", "idle cut"]
    headings += ["journeys", "found by", "check", "s"]
    links_table = table(
        ["lane", "memory", "makespan", "bound", "proved", "s"],
        [
            [
                number(link.lane), str(link.memory), number(link.makespan), number(link.bound),
                "yes" if link.proved else "no", seconds(link.seconds),
            ]
            for link in links
        ],
        left=0,
    )  # fmt: skip
    return "\n".join(
        [
            "# What offload lanes are worth\n",
            provenance(command, [record]),
            about + "\n",
            f"## {STAGES} stages, {BATCHES} micro-batches, F = B = W = 1\n",
            "Memory in activations of one micro-batch, lane time in forward passes, per journey "
            f"and per activation. Work of a device: {3 * BATCHES}. `rule`: the expert schedule "
            "with selective offload (PipeOffload).\n",
            table(headings, lines, left=0),
            "![makespan against memory](offload.png)\n",
            f"## Chain of {LAYERS} layers, forward 1, backward 2\n",
            "Memory in activations; 36 is the time without any pressure. The input is on the host "
            "anyway, so it leaves in no time.\n",
            links_table,
        ]
    )


def draw(rows: list[Row], path: Path) -> None:
    """Makespan against memory, one line per lane time and one without journeys."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    stay = sorted({(row.cap, row.stay) for row in rows if row.stay is not None})
    axes.plot(*zip(*stay, strict=True), "k-o", label="all stay")
    for lane, mark in zip(LANE_TIMES, "s^v", strict=False):
        line = sorted((r.cap, r.travel) for r in rows if r.lane == lane and r.travel is not None)
        axes.plot(*zip(*line, strict=True), f"-{mark}", label=f"lane {float(lane):g}")
    axes.axhline(3 * BATCHES, color="grey", linewidth=0.8, label="work of a device")
    axes.set_xlabel("memory per device, activations of one micro-batch")
    axes.set_ylabel("makespan, forward passes")
    axes.set_xticks(CAPS)
    axes.set_title(f"{STAGES} stages, {BATCHES} micro-batches")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def problems_of(rows: list[Row]) -> list[str]:
    """What contradicts the claims of the page."""
    found = []
    for row in rows:
        where = f"memory {row.cap}, lane {row.lane:g}"
        if not row.valid:
            found.append(f"{where}: the plan fails the check")
        if row.stay is not None and (row.travel is None or row.travel > row.stay):
            found.append(f"{where}: worse than with all staying")
        if row.travel is not None and row.bound > row.travel:
            found.append(f"{where}: bound {row.bound:g} above {row.travel:g}")
    return found


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per case")
    parser.add_argument("--chain-limit", type=float, default=90.0, help="seconds per chain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "results")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run; 1 if the page would contradict itself."""
    given = parse(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    links = chain(given.chain_limit)
    rows = pipelines(given.time_limit, given.seed)
    record = {
        "versions": {"milp_plan": __version__, "highspy": highspy.Highs().version()},
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }
    command = f"python benchmarks/offload_study.py --time-limit {given.time_limit:g}"
    command += f" --chain-limit {given.chain_limit:g} --seed {given.seed}"
    (given.out / "offload.md").write_text(page(rows, links, record, command), encoding="utf-8")
    told = {
        **record,
        "pipelines": [{**asdict(row), "idle_cut": row.cut} for row in rows],
        "chain": [asdict(link) for link in links],
    }
    (given.out / "offload.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    draw(rows, given.out / "offload.png")
    wrong = problems_of(rows)
    print(*wrong, given.out / "offload.md", sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
