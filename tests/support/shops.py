"""Random tiny pipelines that enumeration can solve."""

from __future__ import annotations

from fractions import Fraction
from random import Random

from milp_plan.core import Objective, PlanningProblem
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform


def shop(problem: PlanningProblem) -> Shop:
    """Return a problem that is one as a shop."""
    found = shop_of(problem)
    assert found is not None
    return found


def pipeline_shop(
    family: str,
    devices: int,
    batches: int,
    times: tuple[int, int, int] = (1, 1, 1),
    transfer: int = 0,
    cap: int | None = None,
    objective: Objective = Objective.MAKESPAN,
    **options: object,
) -> Shop:
    """Return a pipeline whose devices hold ``cap`` activations."""
    chunks = 2 if family == "v" else 1
    template, activation = uniform(
        devices,
        batches,
        times,
        transfer=transfer,
        chunks=chunks,
        **options,  # type: ignore[arg-type]
    )
    memory = None if cap is None else cap * activation
    return shop(
        pipeline_problem(
            "case", template, place(family, devices), memory_bytes=memory, objective=objective
        )
    )


def random_tiny_shop(seed: int) -> Shop:
    """Two or three devices, few micro-batches, uneven times, mostly little memory."""
    rng = Random(seed)
    family, devices, batches, chunks = rng.choice(
        [
            ("line", 2, 3, 1),
            ("line", 2, 2, 1),
            ("line", 3, 2, 1),
            ("v", 2, 2, 2),
            ("dualpipe", 2, 2, 1),
        ]
    )
    template, activation = uniform(
        devices,
        batches,
        (rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 5)),
        transfer=rng.randint(0, 2),
        chunks=chunks,
        freed_at_backward=rng.choice([Fraction(0), Fraction(0), Fraction(1, 2)]),
        joint_backward=family in ("v", "dualpipe") or rng.random() < 0.3,
    )
    room = rng.choice([None, 1, 1, 2]) if family != "dualpipe" else rng.choice([None, 2])
    problem = pipeline_problem(
        f"tiny-{seed}",
        template,
        place(family, devices),
        memory_bytes=None if room is None else room * activation,
        objective=rng.choice([Objective.MAKESPAN, Objective.SPAN]),
    )
    found = shop_of(problem)
    assert found is not None
    return found
