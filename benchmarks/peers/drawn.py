"""Random training graphs, compared with our CP-SAT peer: each is drawn by its number.

The study is ``results/drawn-graphs/study.toml``: ``milp-plan table results/drawn-graphs``. Its
numbers were written down before anything was solved; other ones draw other graphs.
"""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import Any

import constructions
import cpsat
import dispatch
import neighbourhoods
import reader
import schedule_model
import study

from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.kinds.schedule.formats import write
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.zoo import ARCHITECTURES, generate

# fmt: off
DEVICES = (
    "A100", "A100-40GB", "B200", "H100", "H200", "L40S", "MI300X", "RTX-4090", "TPU-v5e", "V100",
)
# fmt: on
"""Devices to draw from. One that is added here changes the graph of every number."""

PEER = (constructions, cpsat, dispatch, neighbourhoods, reader, schedule_model)
"""Modules of the peer: a change of one of them is another measurement."""

FEWEST, MOST = 100, 2500
"""Operators of a graph."""

MICRO_BATCHES, SAMPLES_EACH = (1, 2, 3, 4, 5, 6, 8), (1, 2, 4, 8, 16, 32)
ONE_CLASS, TWO_CLASSES = (4, 6, 8, 12, 16, 24, 32), (2, 3, 4, 8, 16)
"""Devices where all are of one class, and of each where there are two."""

TIGHT, LIST = 0.3, "list_critical_path"
"""Part of the graphs that have less memory than the plan of a list schedule holds."""

LEAST_ROOM, MOST_ROOM = 0.7, 0.95
"""What they have, as a part of that plan's highest peak."""

PLACES = 5
"""Decimals of a factor on memory."""

Row = dict[str, Any]


def draw(number: int) -> tuple[PlanningProblem, dict[str, Any]]:
    """Return the graph of a number, and what was drawn for it."""
    rng = random.Random(f"drawn {number}")
    while True:
        name = rng.choice(sorted(ARCHITECTURES))
        kinds = rng.sample(DEVICES, rng.choice((1, 2)))
        counts = ONE_CLASS if len(kinds) == 1 else TWO_CLASSES
        parts = rng.choice(MICRO_BATCHES)
        asked: dict[str, Any] = {
            "architecture_name": name,
            "cluster": "+".join(f"{rng.choice(counts)}x{kind}" for kind in kinds),
            "micro_batches": parts,
            "batch": parts * rng.choice(SAMPLES_EACH),
            "granularity": rng.choice(ARCHITECTURES[name].granularities),
            "optimizer": rng.choice(("adam", "sgd")),
            "communication": rng.choice(("channel", "endpoint", "delay")),
            "memory_scale": "1",
        }
        tight, room = rng.random() < TIGHT, rng.uniform(LEAST_ROOM, MOST_ROOM)
        problem = generate(**asked)
        if FEWEST <= len(problem.graph.operators) <= MOST:
            break
    if tight:
        asked["memory_scale"] = memory_scale(problem, room)
        problem = generate(**asked)
    return problem, asked


def memory_scale(problem: PlanningProblem, room: float) -> str:
    """Factor on memory that leaves so much of a list schedule's highest peak."""
    plan = PLANNERS[LIST](problem)
    if plan is None:  # memory binds as it is
        return "1"
    found = verify(problem, plan).components
    devices = problem.cluster.devices
    used = max(found[f"peak_memory {one.name}"] / (one.memory_bytes or math.inf) for one in devices)
    return f"{used * room:.{PLACES}f}"


def measure(case: dict[str, Any]) -> Row:
    """Draw a graph, and plan it by both tools."""
    problem, asked = draw(case["draw"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "drawn.json"
        write(problem, file)
        ours, about = study.solve(file, case, folder)
        theirs = study.peer(Path(cpsat.__file__), file, case, folder)
    return {**about, "file": f"drawn:{case['draw']}", "asked": asked, "ours": ours, "peer": theirs}


present, complaints, figures = study.present, study.complaints, study.figures
