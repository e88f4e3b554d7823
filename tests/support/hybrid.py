"""Small problems of hybrid parallelism, and their best plans by enumeration.

It reads the law (docs/laws.md) on its own: no code is shared with the checker.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

from milp_plan.kinds.hybrid.plan import Choice, HybridPlan, Stage
from milp_plan.kinds.hybrid.problem import Configuration, Flow, HybridProblem, Layer, Limits


def chain(*seconds: int, **limits: object) -> HybridProblem:
    """Layers a, b, c, ... in a row: plain or, in twice the time, without memory in flight."""
    names = [chr(ord("a") + i) for i in range(len(seconds))]
    layers = tuple(
        Layer(
            name,
            {
                1: (
                    Configuration("plain", Fraction(s), Fraction(0), Fraction(4), Fraction(1)),
                    Configuration(
                        "again", Fraction(2 * s), Fraction(0), Fraction(0), Fraction(1), True
                    ),
                )
            },
        )
        for name, s in zip(names, seconds, strict=True)
    )
    flows = tuple(Flow(a, b, Fraction(0)) for a, b in pairwise(names))
    base = Limits(4, Fraction(100), Fraction(1), 4)
    return HybridProblem("chain", layers, flows, replace(base, **limits))  # type: ignore[arg-type]


def random_problem(seed: int, layers: int = 4) -> HybridProblem:
    """A problem with several degrees, configurations, weights and flows; often tight."""
    pick = random.Random(seed)
    names = [f"v{i}" for i in range(layers)]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if pick.random() < 0.5]
    flows = tuple(Flow(a, b, Fraction(pick.randrange(4))) for a, b in pairs)

    def configuration(name: str, layer: str, recomputes: bool) -> Configuration:
        sources = [a for a, b in pairs if b == layer and pick.random() < 0.4]
        targets = [b for a, b in pairs if a == layer and pick.random() < 0.4]
        return Configuration(
            name,
            Fraction(pick.randrange(8), pick.choice([1, 2, 3])),
            Fraction(pick.randrange(6)),
            Fraction(pick.randrange(5), pick.choice([1, 1, 3])),
            Fraction(pick.randrange(4)),
            recomputes,
            {a: Fraction(pick.randrange(3)) for a in sources},
            {b: Fraction(pick.randrange(3)) for b in targets},
        )

    def layer(name: str) -> Layer:
        degrees = [1, 2] if pick.random() < 0.7 else [pick.choice([1, 1, 2])]
        return Layer(
            name,
            {
                degree: tuple(
                    configuration(f"c{i}", name, i == 1) for i in range(pick.choice([1, 2, 2]))
                )
                for degree in degrees
            },
        )

    limits = Limits(
        pick.choice([1, 2, 3, 4]),
        Fraction(pick.choice([4, 8, 12, 16, 40])),
        Fraction(pick.choice([1, 2, 5])),
        pick.choice([1, 2, 4, 6]),
        *(pick.random() < 0.85 for _ in range(3)),
    )
    return HybridProblem(f"random{seed}", tuple(map(layer, names)), flows, limits)


def best_value(problem: HybridProblem) -> int | None:
    """Least time per sample of any plan, in ticks, by trying all; ``None``: there is none."""
    values = (time_per_sample(problem, plan) for plan in every_plan(problem))
    return min((value for value in values if value is not None), default=None)


def time_per_sample(problem: HybridProblem, plan: HybridPlan) -> int | None:
    """Return the time of the slowest stage, in ticks; ``None`` where the plan breaks the law."""
    limits, stages = problem.limits, plan.stages
    home = {choice.layer: i for i, stage in enumerate(stages) for choice in stage.choices}
    behind = any(home[flow.source] > home[flow.target] for flow in problem.flows)
    many = sum(stage.data * stage.tensor for stage in stages) > limits.devices
    if behind or many or sum(stage.data for stage in stages) > limits.micro_batches:
        return None
    slowest = Fraction(0)
    for i, stage in enumerate(stages):
        data, used = stage.data, {}
        for choice in stage.choices:
            known = problem.by_name[choice.layer].configurations[stage.tensor]
            used[choice.layer] = next(e for e in known if e.name == choice.configuration)
        if limits.micro_batches % data or (data > 1 and not limits.data):
            return None
        if stage.tensor > 1 and not limits.tensor:
            return None
        if not limits.recomputation and any(entry.recomputes for entry in used.values()):
            return None
        flight = -(-sum(later.data for later in stages[i:]) // data)
        held = sum(flight * entry.flight_bytes + entry.fixed_bytes for entry in used.values())
        if held > limits.memory_bytes:
            return None
        crossing = Fraction(0)
        for flow in problem.flows:
            if (flow.source in used) != (flow.target in used):
                crossing += 2 * flow.bytes
                if flow.source in used:
                    crossing += 2 * used[flow.source].send_bytes.get(flow.target, 0)
                else:
                    crossing += 2 * used[flow.target].receive_bytes.get(flow.source, 0)
        weights = sum(entry.parameter_bytes for entry in used.values())
        crossing += Fraction(4 * (data - 1)) * weights / limits.micro_batches
        work = sum(entry.seconds for entry in used.values())
        slowest = max(slowest, (work + crossing / limits.bandwidth_bytes_per_s) / data)
    ticks = slowest * problem.units.time_scale
    assert ticks.denominator == 1
    return ticks.numerator


def every_plan(problem: HybridProblem) -> Iterator[HybridPlan]:
    """Every ordered partition with every choice of degrees and configurations."""
    names = [layer.name for layer in problem.layers]
    most = problem.limits.devices
    degrees = [(d, t) for d in range(1, most + 1) for t in (1, 2) if d * t <= most]
    for places in product(range(len(names)), repeat=len(names)):
        stages = max(places) + 1
        if set(places) != set(range(stages)) or stages > most:
            continue
        groups = [[n for n, p in zip(names, places, strict=True) if p == i] for i in range(stages)]
        for chosen in product(degrees, repeat=stages):
            if sum(d * t for d, t in chosen) <= most:
                yield from _configured(problem, groups, chosen)


def magnified(problem: HybridProblem, seed: int) -> HybridProblem:
    """Return the problem with times and bytes as they are met in practice, some a little more."""
    rng = random.Random(f"magnified {seed}")
    size, pace = rng.choice((1, 2**20, 10**9 + 7)), Fraction(1, rng.choice((1, 977, 10**6)))

    def bytes_(amount: Fraction) -> Fraction:
        return amount * size + (rng.choice((0, 0, 1, 9)) if amount and size > 1 else 0)

    def larger(entry: Configuration) -> Configuration:
        return replace(
            entry,
            seconds=entry.seconds * pace,
            parameter_bytes=bytes_(entry.parameter_bytes),
            flight_bytes=bytes_(entry.flight_bytes),
            fixed_bytes=bytes_(entry.fixed_bytes),
            receive_bytes={name: bytes_(b) for name, b in entry.receive_bytes.items()},
            send_bytes={name: bytes_(b) for name, b in entry.send_bytes.items()},
        )

    layers = tuple(
        Layer(x.name, {t: tuple(map(larger, known)) for t, known in x.configurations.items()})
        for x in problem.layers
    )
    flows = tuple(replace(flow, bytes=bytes_(flow.bytes)) for flow in problem.flows)
    limits = problem.limits
    rate = limits.bandwidth_bytes_per_s * size / pace
    limits = replace(limits, memory_bytes=limits.memory_bytes * size, bandwidth_bytes_per_s=rate)
    return HybridProblem(f"magnified-{problem.name}", layers, flows, limits)


def _configured(
    problem: HybridProblem, groups: list[list[str]], chosen: tuple[tuple[int, int], ...]
) -> Iterator[HybridPlan]:
    menus = [
        [Choice(name, e.name) for e in problem.by_name[name].configurations.get(t, ())]
        for group, (_, t) in zip(groups, chosen, strict=True)
        for name in group
    ]
    for picks in product(*menus):
        left = iter(picks)
        stages = tuple(
            Stage(tuple(next(left) for _ in group), d, t)
            for group, (d, t) in zip(groups, chosen, strict=True)
        )
        yield HybridPlan(problem.name, stages)
