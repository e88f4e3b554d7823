"""Migration: every element once, a tensor that goes round, bytes that equal the lower bound."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from milp_plan.core import InputError
from milp_plan.kinds.resharding.bounds import receiver_bound, sender_bound
from milp_plan.kinds.resharding.check import verify_resharding
from milp_plan.kinds.resharding.migration import OPTIMIZER, WEIGHTS, Degrees, Migration, Parameter
from milp_plan.kinds.resharding.planners import busiest_first, load_only, randomised

PARAMETERS = (
    Parameter("first", (7, 6), 0, 1),
    Parameter("norm", (5,), 0),
    Parameter("second", (4, 9), 1, 0),
    Parameter("third", (6, 3), 2, 1),
)


def degrees(rng):
    data, tensor, pipeline = (rng.choice([1, 2, 3]) for _ in range(3))
    per_host = rng.choice([1, 2, 4])
    hosts = -(-data * tensor * pipeline // per_host)
    names = rng.sample([f"h{i}" for i in range(hosts + 2)], hosts)
    return Degrees(tuple(names), per_host, data, tensor, pipeline, rng.random() < 0.5)


def drawn(seed):
    rng = random.Random(seed)
    return Migration(f"m{seed}", PARAMETERS, degrees(rng), degrees(rng), 2, rng.choice([0, 12]))


def held(migration, side, parameter, what, whole):
    """Host -> index -> element, as a plan by degrees has them."""
    found = {}
    for tile in side.tiles(parameter, what, migration.layers):
        for index in np.ndindex(parameter.shape):
            pairs = zip(index, tile.box, strict=True)
            if all(low <= place < high for place, (low, high) in pairs):
                found.setdefault(tile.host, {})[index] = whole[index]
    return found


def box_of(name):
    return [tuple(map(int, part.split(":"))) for part in name[name.index("[") + 1 : -1].split(",")]


@pytest.mark.parametrize("seed", range(40))
def test_every_element_arrives_once(seed):
    """U1: what is delivered and what was there make exactly what is needed."""
    migration, generator = drawn(seed), np.random.default_rng(seed)
    problem = migration.problem(10**9)
    moved = 0
    for parameter in migration.parameters:
        for what, size in migration.states:
            whole = generator.integers(0, 1000, parameter.shape)
            before = held(migration, migration.before, parameter, what, whole)
            after = held(migration, migration.after, parameter, what, whole)
            got = {host: dict(rows) for host, rows in before.items()}
            received = {}
            for entry in problem.slices:
                if not entry.name.startswith(f"{parameter.name} {what}["):
                    continue
                ranges = [range(low, high) for low, high in box_of(entry.name)]
                for index in np.ndindex(parameter.shape):
                    if not all(place in span for place, span in zip(index, ranges, strict=True)):
                        continue
                    assert {h for h in before if index in before[h]} == set(entry.senders)
                    for host in entry.receivers:
                        assert index not in got.get(host, {})  # neither there nor received before
                        got.setdefault(host, {})[index] = before[entry.senders[0]][index]
                        received[host, index] = 1
            lacking = {(h, i) for h, rows in after.items() for i in rows} - {
                (h, i) for h, rows in before.items() for i in rows
            }
            assert set(received) == lacking
            moved += size * len(lacking)
            for host, rows in after.items():
                assert {index: got[host][index] for index in rows} == rows
    assert migration.missing_bytes() == moved
    assert sum(s.size * len(s.receivers) for s in problem.slices) == moved


@pytest.mark.parametrize("seed", range(10))
def test_there_and_back(seed):
    """U1: the way back asks for nothing of hosts that kept everything, and both ways have plans."""
    there = drawn(seed)
    back = replace(there, before=there.after, after=there.before)
    same = replace(there, after=there.before)
    assert same.missing_bytes() == 0
    for migration in (there, back):
        problem = migration.problem(10**9)
        for planner in (load_only, randomised):
            assert verify_resharding(problem, planner(problem, 0)).ok
        assert migration.missing_bytes() <= migration.needed_bytes()


BLOCK = [("q", (512, 512), 0), ("o", (512, 512), 1), ("up", (2048, 512), 0), ("norm", (512,), None)]


def test_thousands_of_slices():
    """A card that must receive most hardly pauses: within 1 % of the bound, and by what rules."""
    parameters = tuple(
        Parameter(f"{name}.{layer}", shape, layer, split)
        for layer in range(40)
        for name, shape, split in BLOCK
    )
    hosts = tuple(f"h{i}" for i in range(8))
    before = Degrees(hosts, 4, 4, 2, 4, True)
    after = Degrees(hosts[:6], 4, 3, 4, 2, True)
    migration = Migration("large", parameters, before, after)
    problem = migration.problem(10**9)
    assert len(problem.slices) > 1_000
    verdict = verify_resharding(problem, busiest_first(problem))
    bound = max(receiver_bound(problem).value, sender_bound(problem).value)
    assert verdict.ok
    assert bound <= verdict.value <= 1.01 * bound
    assert verify_resharding(problem, load_only(problem)).value > 1.1 * bound


def test_what_is_cut_alike_is_cut_once():
    """A parameter alone has the same slices as among others of its shape."""
    for seed in range(10):
        migration = drawn(seed)
        many = tuple(
            replace(parameter, name=f"{parameter.name}{copy}")
            for parameter in migration.parameters
            for copy in range(2)
        )
        other = replace(migration, parameters=many)
        rows = {
            (s.name.replace("0 ", " ", 1), s.size, s.senders, s.receivers)
            for s in other.slices
            if "0 " in s.name
        }
        assert rows == {(s.name, s.size, s.senders, s.receivers) for s in migration.slices}
        assert other.needed_bytes() == 2 * migration.needed_bytes()


def test_optimizer_state_is_cut_by_the_data_degree():
    side = Degrees(("a", "b"), 1, 2, 1, 1, True)
    weights = side.tiles(PARAMETERS[0], WEIGHTS, 3)
    state = side.tiles(PARAMETERS[0], OPTIMIZER, 3)
    assert [tile.box for tile in weights] == [((0, 7), (0, 6))] * 2
    assert [tile.box for tile in state] == [((0, 4), (0, 6)), ((4, 7), (0, 6))]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"before": Degrees(("a",), 1, 2, 1, 1)}, "before, degrees"),
        ({"after": Degrees(("a", "a"), 2, 1, 1, 1)}, "after, hosts"),
        ({"after": Degrees(("a",), 9, 1, 1, 4)}, "after, pipeline"),
        ({"after": Degrees(("a",), 1, 0, 1, 1)}, "after, data"),
        ({"parameters": ()}, "parameters"),
        ({"parameters": (Parameter("x", (2,), 0, 1),)}, "parameter 'x', split"),
        ({"parameters": (Parameter("x", (0,), 0),)}, "parameter 'x'"),
    ],
)
def test_defects(change, where):
    one = Degrees(("a",), 1, 1, 1, 1)
    good = Migration("m", PARAMETERS, one, one)
    with pytest.raises(InputError) as caught:
        replace(good, **change)
    assert where in {finding.where for finding in caught.value.findings}
