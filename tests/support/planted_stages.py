"""Planted tiny problems of layers on stages: each comes with a plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from milp_plan.kinds.training.stages_problem import (
    Chunk,
    Counts,
    Device,
    Fill,
    Load,
    Run,
    TrainingStagesPlan,
    TrainingStagesProblem,
    peaks_of,
    step_of,
)

FILLS = (Fill(), Fill(weight=-1), Fill(weight=-2))
"""1F1B and interleaved, ZB-H1, ZB-V."""


def planted_training_stages(
    seed: int, digits: int | None = None, *, layers: int = 5
) -> tuple[TrainingStagesProblem, TrainingStagesPlan]:
    """Return the instance of a seed and a valid plan of it, which claims its value.

    Parameters
    ----------
    seed
        Equal seeds give equal instances.
    digits
        Power of ten up to which ticks go, bytes by one more; by default 9, or 2 for every third
        seed. Some layers take no time.
    layers
        At most as many in all.
    """
    rng = Random(seed)
    top = 10 ** ((2 if seed % 3 == 2 else 9) if digits is None else digits)
    fill = rng.choice(FILLS)
    per_device = rng.choice((1, 1, 2))
    total = rng.randint(1, layers)
    stages = rng.randint(1, max(1, min(3, total // per_device)))
    per_device = min(per_device, total // stages)
    classes, ways = rng.randint(1, 2), ("kept", "recomputed", "offloaded")[: rng.randint(1, 3)]
    cuts = sorted(rng.sample(range(1, total), min(rng.randint(0, 2), total - 1)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]
    runs = tuple(
        Run(f"run {number}", size, tuple(_ways(rng, ways, top) for _ in range(classes)))
        for number, size in enumerate(sizes)
    )
    count = stages * per_device
    v_shaped = rng.random() < 0.5
    order = [
        k if k < stages else 2 * stages - 1 - k if v_shaped else k - stages for k in range(count)
    ]
    chunks = tuple(Chunk(device, _beside(rng, top)) for device in order)
    m = rng.randint(1, 8)
    devices = tuple(
        Device(
            rng.randrange(classes),
            None,
            tuple(
                tuple(rng.randint(1, m) for _ in range(per_device))
                for _ in range(rng.randint(1, 2))
            ),
        )
        for _ in range(stages)
    )
    problem = TrainingStagesProblem(
        f"planted-training-stages-{seed}", ways, runs, devices, chunks, m, fill
    )
    counts = _counts(rng, problem)
    peaks = peaks_of(problem, counts)
    if rng.random() < 0.8:
        limits = [peak if rng.random() < 0.7 else peak + rng.randint(0, peak) for peak in peaks]
        devices = tuple(replace(d, limit=most) for d, most in zip(devices, limits, strict=True))
        problem = replace(problem, devices=devices)
    value = step_of(problem, counts)
    plan = TrainingStagesPlan(problem.name, counts, problem.fingerprint, value, "planted")
    return problem, plan


def _amount(rng: Random, top: int) -> int:
    """Return a number, now and then 0."""
    return 0 if rng.random() < 0.15 else rng.randint(0, top)


def _ways(rng: Random, ways: tuple[str, ...], top: int) -> tuple[Load, ...]:
    forward, backward, weight = (_amount(rng, top) for _ in range(3))
    kept, resident = _amount(rng, 10 * top) + 1, _amount(rng, 10 * top) + 1
    plain = Load(forward, backward, weight, kept, resident)
    again = replace(
        plain,
        backward=backward + forward,
        kept=kept // 8,
        workspace=rng.choice((0, kept)),
    )
    moved = replace(plain, kept=kept // 16, lane=_amount(rng, 2 * top), workspace=kept)
    return (plain, again, moved)[: len(ways)]


def _beside(rng: Random, top: int) -> Load:
    if rng.random() < 0.5:
        return Load()
    times = (_amount(rng, top) for _ in range(3))
    return Load(*times, *(_amount(rng, top) for _ in range(3)))


def _counts(rng: Random, problem: TrainingStagesProblem) -> Counts:
    """Cut the layers anywhere and let each run in any way."""
    chunks, ways = len(problem.chunks), len(problem.ways)
    names = [number for number, run in enumerate(problem.runs) for _ in range(run.count)]
    cuts = sorted(rng.randint(0, len(names)) for _ in range(chunks - 1))
    counts = [[[0] * ways for _ in problem.runs] for _ in range(chunks)]
    for chunk, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(names)], strict=True)):
        for run in names[start:stop]:
            counts[chunk][run][rng.randrange(ways)] += 1
    return tuple(tuple(tuple(row) for row in chunk) for chunk in counts)
