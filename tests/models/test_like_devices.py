"""Memory rows for each event, on whatever of like devices it happens, against enumeration."""

from __future__ import annotations

from random import Random

import pytest

from formulations.operator_schedule.event_rows import devices_are_alike
from milp_plan.api import Guide, Objective, PlanningProblem
from milp_plan.backends import Limits, Stop
from milp_plan.core import CommunicationModel
from milp_plan.core.budget import Budget
from milp_plan.models.registry import get
from milp_plan.run.model import FormulationSolver
from tests.support.brute import brute_force
from tests.support.seeds import few

from .hand import op, problem, value

LIMITS = Limits(time_s=60.0, gap=0.0)


def drawn(seed: int) -> PlanningProblem:
    """Five or fewer operators on two or three like devices, whose memory often binds."""
    rng = Random(seed)
    names = "xyzuw"[: rng.randint(3, 5)]
    times = rng.choice([(0, 1, 2, 5), (0, 3_000, 10_007, 1_000_000), (0, 1, 10**9, 123_456_789)])
    sizes = rng.choice([(0, 1, 3, 6), (10**6, 3 * 10**9, 10**10), (7, 999_999_937, 10**10)])
    pairs = {name: rng.choice(("", "g")) for name in names}
    several = [name for name in names if pairs[name]]
    operators = [
        op(
            name,
            rng.choice(times),
            space=rng.choice((0, rng.choice(sizes))),
            group="g" if name in several and len(several) > 1 else None,
        )
        for name in names
    ]
    values = [value("p", None, *rng.sample(names, 2), size=rng.choice(sizes))]
    for place, name in enumerate(names[:-1]):
        readers = rng.sample(names[place + 1 :], rng.randint(1, min(2, len(names) - place - 1)))
        values.append(value(f"v{name}", name, *readers, size=rng.choice(sizes)))
    total = sum(max(v.bytes.values()) for v in values)
    return problem(
        operators,
        values,
        devices=rng.choice(("ab", "abc")),
        memory=max(1, int(total * rng.uniform(0.4, 1.2))),
        model=rng.choice(list(CommunicationModel)),
        objective=rng.choice((Objective.MAKESPAN, Objective.MAKESPAN, Objective.PEAK_MEMORY)),
    )


@pytest.mark.parametrize("seeds", few([range(n, n + 20) for n in range(0, 1000, 20)], 1), ids=str)
def test_the_model_alone_agrees_with_enumeration(seeds: range) -> None:
    solver = FormulationSolver(get("operator_schedule")).with_options({})
    binding = 0
    for seed in seeds:
        case = drawn(seed)
        assert devices_are_alike(case)
        best = brute_force(case)
        free = brute_force(case.variant(cluster=case.cluster.with_memory(dict.fromkeys("abc"))))
        binding += best is None or free is None or best[0] > free[0]
        answer = solver.run(case, Guide(), LIMITS, Budget(LIMITS.time_s))
        reported = f"seed {seed}: {answer.report.stop}, value {answer.value}, bound {answer.bound}"
        assert answer.disputed == "", f"{reported}: {answer.disputed}"
        if best is None:
            assert (answer.report.stop, answer.plan) == (Stop.INFEASIBLE, None), reported
            continue
        assert answer.value is not None, f"{reported}, optimum {best[0]}"
        assert best[0] <= answer.value <= best[0] * (1 + 1e-4), f"{reported}, optimum {best[0]}"
        assert answer.bound is None or answer.bound <= best[0], f"{reported}, optimum {best[0]}"
    assert binding >= 2
