"""The optimum of small problems of layers on stages, by trying everything, layer by layer."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

from milp_plan.kinds.training.stages_problem import Load, TrainingStagesProblem


def least(problem: TrainingStagesProblem) -> int | None:
    """Return the least value of a plan; ``None`` where nothing fits."""
    names = [number for number, run in enumerate(problem.runs) for _ in range(run.count)]
    best = None
    for cuts in combinations_with_replacement(range(len(names) + 1), len(problem.chunks) - 1):
        bounds = list(zip([0, *cuts], [*cuts, len(names)], strict=True))
        choices = [
            list(ways_of(problem, device, [names[slice(*bounds[k])] for k in chunks]))
            for device, chunks in enumerate(problem.chunks_of)
        ]
        for rows in product(*choices):
            value = step(problem, rows)
            best = value if best is None else min(best, value)
    return best


def ways_of(problem, device, parts):
    """Times of a device whose chunks have these layers, once for each choice that fits."""
    of = problem.devices[device]
    layers = [(place, run) for place, part in enumerate(parts) for run in part]
    seen = set()
    for ways in product(range(len(problem.ways)), repeat=len(layers)):
        loads: list[list[Load]] = [[problem.chunks[k].beside] for k in problem.chunks_of[device]]
        for (place, run), way in zip(layers, ways, strict=True):
            loads[place].append(problem.runs[run].ways[of.kind][way])
        flat = [load for part in loads for load in part]
        fixed = sum(load.resident for load in flat) + max(load.workspace for load in flat)
        peak = fixed + max(
            sum(n * load.kept for n, part in zip(row, loads, strict=True) for load in part)
            for row in of.waiting
        )
        if of.limit is None or peak <= of.limit:
            names = ("forward", "backward", "weight", "lane")
            seen.add(
                tuple(
                    tuple(sum(getattr(load, name) for load in part) for name in names)
                    for part in loads
                )
            )
    return seen


def step(problem, rows) -> int:
    """Return the step: the device that ends last, with the fill of all others."""
    fill, m = problem.fill, problem.micro_batches
    fills = [
        max(0, *(fill.forward * f + fill.backward * b + fill.weight * w for f, b, w, _ in row))
        for row in rows
    ]
    ends = []
    for row, own in zip(rows, fills, strict=True):
        forward, backward, weight, lane = map(sum, zip(*row, strict=True))
        ends.append(m * max(forward + backward + weight, lane) + sum(fills) - own)
    return max(ends)
