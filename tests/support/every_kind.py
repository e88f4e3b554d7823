"""Random tiny problems of every kind, and the same with what they cost measured anew."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np

from milp_plan.core import Channel
from milp_plan.kinds.packing.problem import Buffer, PackingProblem
from tests.support.planted_local_updates import planted_local_updates
from tests.support.planted_resharding import planted_resharding

from . import anything, hybrid, jobs, rematerialisation, sharding, training


def _packing(seed):
    rng = random.Random(f"packing {seed}")
    most = rng.choice((4, 10**9))
    buffers = []
    for number in range(rng.randint(1, 6)):
        lower = rng.randint(0, 8)
        size, alignment = rng.randint(1, most), rng.choice((1, 1, 2, 256))
        buffers.append(Buffer(f"b{number}", lower, lower + rng.randint(1, 6), size, alignment))
    return PackingProblem(f"packing{seed}", tuple(buffers))


def _hosted(seed):
    """Rematerialisation, every third with a host."""
    problem = rematerialisation.drawn(seed)
    return problem if seed % 3 else rematerialisation.powered(problem, seed)


DRAWN = {
    "schedule": anything.random_case,
    "serial": anything.serial_case,
    "jobs": lambda seed: (jobs.chains if seed % 2 else jobs.plain)(seed // 2),
    "rematerialisation": _hosted,
    "resharding": lambda seed: planted_resharding(seed)[0],
    "local-updates": lambda seed: planted_local_updates(seed)[0],
    "sharding": sharding.random_problem,
    "hybrid": hybrid.random_problem,
    "packing": _packing,
    "training": training.drawn,
}
"""Name of a kind, or of a form of one -> the problem of a seed."""


def measured_anew(name, problem, seed):
    """The same problem with other times, rates or costs; ``None`` where it has none to change."""
    rng = random.Random(f"anew {name} {seed}")
    found = _ANEW["schedule" if name == "serial" else name](problem, rng)
    return None if found.fingerprint == problem.fingerprint else found


def _other(rng, amount, least=0):
    """Another amount: a little more or less, much more, or none at all."""
    factor = rng.choice((0, 1, 1, 1, 2, rng.uniform(0.5, 2)))
    return max(least, int(amount * factor) + rng.choice((0, 0, 1)))


def _schedule(problem, rng):
    operators = tuple(
        replace(
            entry,
            options=tuple(
                replace(
                    option,
                    duration_ticks={c: _other(rng, ns) for c, ns in option.duration_ticks.items()},
                )
                for option in entry.options
            ),
        )
        for entry in problem.graph.operators
    )
    rates = {}
    channels = tuple(
        Channel(
            c.source,
            c.target,
            rates.setdefault(c.latency_ticks, _other(rng, c.latency_ticks)),
            c.bandwidth_bytes_per_s,
        )
        for c in problem.cluster.channels
    )
    return replace(
        problem,
        graph=replace(problem.graph, operators=operators),
        cluster=replace(problem.cluster, channels=channels),
    )


def _jobs(problem, rng):
    def unit(entry):
        options = tuple(replace(o, ticks=_other(rng, o.ticks)) for o in entry.options)
        return replace(entry, options=options)

    return replace(
        problem,
        jobs=tuple(
            replace(
                job,
                units=tuple(unit(entry) for entry in job.units),
                weights=tuple(
                    replace(w, load=_other(rng, w.load), store=_other(rng, w.store))
                    for w in job.weights
                ),
            )
            for job in problem.jobs
        ),
    )


def _remat(problem, rng):
    rows = tuple(replace(c, cost=_other(rng, c.cost)) for c in problem.computations)
    return replace(problem, computations=rows)


def _resharding(problem, rng):
    cards = tuple(
        replace(card, bytes_per_s=_other(rng, card.bytes_per_s, max(1, card.bytes_per_s // 9)))
        for card in problem.cards
    )
    return replace(problem, cards=cards)


def _local(problem, rng):
    stages = tuple(
        replace(s, forward=_other(rng, s.forward, 1), backward=_other(rng, s.backward, 1))
        for s in problem.stages
    )
    return replace(problem, stages=stages)


def _sharding(problem, rng):
    cost = np.array([_other(rng, int(c)) for c in problem.strategies.cost], dtype=np.int64)
    return replace(problem, strategies=replace(problem.strategies, cost=cost))


def _hybrid(problem, rng):
    def configured(entry):
        return replace(entry, seconds=entry.seconds * Fraction(rng.randint(1, 5), 3))

    layers = tuple(
        replace(
            layer,
            configurations={
                degree: tuple(configured(entry) for entry in known)
                for degree, known in layer.configurations.items()
            },
        )
        for layer in problem.layers
    )
    return replace(problem, layers=layers)


def _sized(problem, rng):
    buffers = tuple(replace(b, size=_other(rng, b.size, 1)) for b in problem.buffers)
    return replace(problem, buffers=buffers)


_ANEW = {
    "schedule": _schedule,
    "jobs": _jobs,
    "rematerialisation": _remat,
    "resharding": _resharding,
    "local-updates": _local,
    "sharding": _sharding,
    "hybrid": _hybrid,
    "packing": _sized,
    "training": training.anew,
}
