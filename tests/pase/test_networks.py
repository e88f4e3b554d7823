"""PaSE's five networks: sizes of their spaces, costs and optima against the released program.

The figures were computed once with PaSE's released program (sizes, costs of one device and of data
parallelism) and with a dense elimination over its tables (optima it did not finish itself).
Optima are multiply-adds; the default rates and batches of PaSE's evaluation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from pase_baselines import data_parallel
from pase_costs import MULTIPLY_ADD_TICKS, configurations, pase_problem, pase_tables
from pase_networks import NETWORKS, alexnet, network, transformer

from milp_plan.core import InputError
from milp_plan.elimination.repeated import RepeatedProblem
from milp_plan.elimination.search import eliminate

# network, devices: operators, edges, most and all strategies, entries of edge tables, optimum,
# data parallelism
FIGURES = {
    ("alexnet", 4): (14, 13, 12, 116, 954, 148215719552, 577556866496),
    ("alexnet", 8): (14, 13, 28, 234, 3999, 97098296512, 601108833248),
    ("alexnet", 16): (14, 13, 56, 419, 13131, 70320712672, 612884816624),
    ("alexnet", 32): (14, 13, 100, 684, 35701, 53136349552, 618772808312),
    ("alexnet", 64): (14, 13, 163, 1026, 82050, 41120456048, 618772808312),
    ("inception3", 4): (219, 253, 14, 2022, 18869, 986757044608, 1000665140416),
    ("inception3", 8): (219, 253, 30, 4299, 81596, 782140602432, 798678010208),
    ("inception3", 16): (219, 253, 57, 7949, 267526, 673045949344, 697684445104),
    ("inception3", 32): (219, 253, 105, 13275, 718800, 602425599824, 647187662552),
    ("inception3", 64): (219, 253, 176, 20248, 1612557, 553203648656, 647187662552),
    ("resnet101", 4): (245, 277, 15, 2202, 21959, 1718742247936, 1732650343744),
    ("resnet101", 8): (245, 277, 35, 4360, 85833, 1425262849920, 1445917811872),
    ("resnet101", 16): (245, 277, 68, 7555, 256793, 1244493633088, 1302551545936),
    ("resnet101", 32): (245, 277, 117, 11874, 630370, 1086268826784, 1230868412968),
    ("resnet101", 64): (245, 277, 184, 17142, 1303298, 881764728352, 1230868412968),
    ("rnnlm", 4): (4, 3, 15, 54, 570, 6866837733376, 9435357388800),
    ("rnnlm", 8): (4, 3, 36, 123, 2916, 4024963186688, 7101223014400),
    ("rnnlm", 16): (4, 3, 75, 244, 11175, 2476066881536, 5934155827200),
    ("rnnlm", 32): (4, 3, 142, 442, 35358, 1491938058240, 5350622233600),
    ("rnnlm", 64): (4, 3, 249, 745, 96363, 935818633216, 5058855436800),
    ("transformer", 4): (204, 256, 22, 3165, 58398, 2189181321216, 2491384193024),
    ("transformer", 8): (204, 256, 62, 7729, 342324, 1421082828800, 1850200256512),
    ("transformer", 16): (204, 256, 146, 16186, 1470912, 1004992614400, 1529608288256),
    ("transformer", 32): (204, 256, 302, 30397, 5061222, 727566614528, 1369312304128),
    ("transformer", 64): (204, 256, 566, 52613, 14749354, 521017024512, 1289164312064),
}
ONE_DEVICE = {
    "alexnet": 436245065984,
    "inception3": 2212587921664,
    "resnet101": 3453045534976,
    "rnnlm": 23440163635200,
    "transformer": 6338487812096,
}
SLOW = {
    ("transformer", 64),
    ("transformer", 32),
    ("resnet101", 64),
    ("resnet101", 32),
    ("inception3", 64),
    ("inception3", 32),
}


def cost(problem: RepeatedProblem, chosen: list[int]) -> float:
    own = sum(int(problem.own[kind].cost[c]) for kind, c in zip(problem.kinds, chosen, strict=True))
    ends = zip(problem.ends, problem.links, strict=True)
    pairs = sum(int(problem.pairs[link].cost[chosen[a], chosen[b]]) for (a, b), link in ends)
    return (own + pairs) / MULTIPLY_ADD_TICKS


@pytest.mark.parametrize(
    ("name", "devices"),
    [pytest.param(*key, marks=[pytest.mark.slow] if key in SLOW else []) for key in FIGURES],
)
def test_spaces_and_optima_are_those_of_the_released_program(name: str, devices: int) -> None:
    problem = pase_tables(network(name), devices)
    *counts, best, data = FIGURES[name, devices]
    entries = sum(problem.pairs[link].cost.size for link in problem.links)
    sizes = problem.sizes
    assert [len(sizes), len(problem.ends), max(sizes), sum(sizes), entries] == counts
    found = eliminate(problem)
    assert found.exact
    assert found.value == found.bound
    assert found.chosen is not None
    assert cost(problem, list(found.chosen)) == pytest.approx(best, rel=1e-9)
    assert found.value == pytest.approx(best * MULTIPLY_ADD_TICKS, rel=1e-9)
    plan = data_parallel(network(name), devices)
    assert cost(problem, list(plan)) == pytest.approx(data, rel=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_one_device_computes_and_sends_nothing(name: str) -> None:
    problem = pase_tables(network(name), 1)
    assert problem.sizes == [1] * len(problem.operators)
    assert cost(problem, [0] * len(problem.operators)) == pytest.approx(ONE_DEVICE[name], rel=1e-9)


def test_configurations_are_divisors_within_the_devices() -> None:
    for layer in {*alexnet().layers, *transformer(layers=1).layers}:
        rows = configurations(layer, 6)
        assert (rows.prod(axis=1) <= 6).all()
        assert (np.array(layer.extents) % rows == 0).all()
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert all((rows[:, loop] == 1).all() for loop in layer.whole)
        split = rows > 1
        assert (np.broadcast_to(layer.extents, rows.shape) / rows >= layer.grain)[split].all()


def test_a_flattened_tensor_is_split_in_contiguous_parts_only() -> None:
    flat = next(layer for layer in alexnet(batch=2).layers if layer.kind == "ravel")
    assert flat.extents == (2, 256, 6, 6)
    loose = [
        row
        for row in configurations(flat, 8).astype(int).tolist()
        if any(
            a < n and any(b > 1 for b in row[i + 1 :])
            for i, (a, n) in enumerate(zip(row, flat.extents, strict=True))
        )
    ]
    assert loose == []


def test_resharding_costs_what_the_consumer_lacks() -> None:
    graph = alexnet()
    problem = pase_tables(graph, 4)
    edge = problem.ends.index((11, 12))
    table, (own, other) = problem.pairs[problem.links[edge]].cost, (11, 12)
    names = [problem.labels[problem.kinds[operator]] for operator in (own, other)]
    word = 2 * 5000 * MULTIPLY_ADD_TICKS  # forward and backward
    whole = 128 * 4096
    row, column = names[0].index("1x4x1"), names[1].index("1x1x4")
    assert table[row, column] == 0
    assert table[row, names[1].index("1x1x1")] == word * (whole - whole // 4)
    assert table[row, names[1].index("4x1x1")] == word * (whole // 4 - whole // 16)
    assert table[names[0].index("1x1x1"), column] == word * whole // 4


def test_parallel_edges_count_once_or_add_up() -> None:
    graph = transformer(layers=1)
    once, added = pase_tables(graph, 4), pase_tables(graph, 4, parallel_edges_add=True)
    assert len(added.ends) > len(once.ends) == len(set(added.ends))
    assert eliminate(once).value == eliminate(added).value


def test_rates_scale_what_is_sent() -> None:
    slow = pase_problem(network("rnnlm"), 4, flops=10e12, bandwidth=8e9)
    fast = pase_problem(network("rnnlm"), 4, flops=20e12, bandwidth=16e9)
    assert np.array_equal(slow.transitions.cost, fast.transitions.cost)
    assert math.isclose(
        float(slow.transitions.cost.sum()),
        2.0 * float(pase_problem(network("rnnlm"), 4).transitions.cost.sum()),
        rel_tol=1e-9,
    )
    assert len(slow.labels) == len(slow.strategies.cost)


@pytest.mark.parametrize("call", [lambda: network("vgg"), lambda: transformer(layers=0)])
def test_unknown_networks_and_empty_stacks_are_refused(call) -> None:
    with pytest.raises(InputError):
        call()


def test_no_devices_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        pase_tables(alexnet(), 0)
