"""Graphs on a mesh as sharding problems, against figures by hand and enumeration."""

import itertools
from importlib import import_module

import numpy as np
import pytest

from milp_plan.core import InputError
from milp_plan.cost.collectives import all_gather_ns, all_reduce_ns, reduce_scatter_ns
from milp_plan.cost.mesh import (
    ADAM,
    MeshGraph,
    Setting,
    Tiling,
    elementwise,
    matmul,
    mesh_problem,
    norm,
)
from milp_plan.elimination.repeated import repeated
from milp_plan.elimination.search import eliminate
from tests.support.sharding import optimum

from .figures import UNIT, grid, line

STREAM = 8 * 4 * 16 * 2
"""Bytes of the activations between layers of the MLP."""

MLP = MeshGraph(
    "mlp",
    ("before", "up", "act", "down", "after"),
    (
        elementwise((8, 4, 16)),
        matmul(8, 4, 64, 16),
        elementwise((8, 4, 64)),
        matmul(8, 4, 16, 64),
        elementwise((8, 4, 16)),
    ),
    ((None,), (0,), (1,), (2,), (3,)),
)
RESIDUAL = MeshGraph(
    "residual",
    ("norm", "product", "sum"),
    (norm(4, 1, 8), matmul(4, 1, 8, 8), elementwise((4, 1, 8), inputs=2, linear=True)),
    ((None,), (0,), (0, 1)),
)


def picked(problem, *names):
    """(own cost, resharding) of the strategies with these names, and their rows."""
    s = problem.strategies
    chosen = []
    for number, name in enumerate(names):
        labels = problem.labels[s.offsets[number] : s.offsets[number + 1]]
        (place,) = (i for i, label in enumerate(labels) if label == name)
        chosen.append(place)
    pairs = []
    for edge, (a, b) in enumerate(problem.transitions.ends.tolist()):
        cost, allowed = problem.table(edge)
        pairs.append(int(cost[chosen[a], chosen[b]]) if allowed[chosen[a], chosen[b]] else None)
    return chosen, pairs


MEGATRON = ("copy -> full", "x:n -> 2:x", "x:d2 -> 2:x", "x:k -> sum:x", "copy -> full")


def test_column_then_row_is_one_all_reduce():
    _, pairs = picked(mesh_problem(MLP, Setting(line(4))), *MEGATRON)
    assert pairs == [0, 0, 0, all_reduce_ns(UNIT, 4, STREAM)]


def test_and_another_one_backward():
    _, pairs = picked(mesh_problem(MLP, Setting(line(4), ADAM)), *MEGATRON)
    once = all_reduce_ns(UNIT, 4, STREAM)
    assert pairs == [once, 0, 0, once]


def test_sequence_parallel_gathers_and_scatters():
    """Both neighbours split by tokens: AG before and RS after, in either pass the other way."""
    ends = "x:d1 -> 1:x"
    _, pairs = picked(mesh_problem(MLP, Setting(line(4), ADAM)), ends, *MEGATRON[1:4], ends)
    both = all_gather_ns(UNIT, 4, STREAM) + reduce_scatter_ns(UNIT, 4, STREAM)
    assert pairs == [both, 0, 0, both]
    _, pairs = picked(mesh_problem(MLP, Setting(line(4))), ends, *MEGATRON[1:4], ends)
    assert pairs == [all_gather_ns(UNIT, 4, STREAM), 0, 0, reduce_scatter_ns(UNIT, 4, STREAM)]


def test_pending_sums_pass_through_a_sum():
    """Both terms pending along x add up to a pending sum; a full one cannot be made pending."""
    graph = MeshGraph(
        "terms",
        ("one", "two", "sum", "after"),
        (
            matmul(4, 1, 8, 8),
            matmul(4, 1, 8, 8),
            elementwise((4, 1, 8), inputs=2, linear=True),
            elementwise((4, 1, 8)),
        ),
        ((None,), (None,), (0, 1), (2,)),
    )
    problem = mesh_problem(graph, Setting(line(4)))
    names = ("x:k -> sum:x", "x:k -> sum:x", "x:sum -> sum:x", "copy -> full")
    assert picked(problem, *names)[1] == [0, 0, all_reduce_ns(UNIT, 4, 4 * 8 * 2)]
    assert picked(problem, "copy -> full", *names[1:])[1][0] is None


@pytest.mark.parametrize("training", [None, ADAM])
@pytest.mark.parametrize("text", ["2", "2x2"])
def test_optimum_equals_enumeration(text, training):
    """Own sums over strategies and paths, elimination, and the tables' optimum are one number."""
    mesh = line(2) if text == "2" else grid(text)
    setting = Setting(mesh, training, (0, 2, 3))
    rows = RESIDUAL.strategies(setting)
    assert min(len(row) for row in rows) > 2
    total = sum(
        np.array([s.cost_ns for s in own], dtype=float).reshape(
            [-1 if a == n else 1 for a in (0, 1, 2)]
        )
        for n, own in enumerate(rows)
    )
    for source, reader, port in RESIDUAL.edges():
        tensor = RESIDUAL.operators[reader].inputs[port]
        tiling = Tiling(mesh, tensor.extents, tensor.element_bytes)
        table = np.full(
            [len(own) if a in (source, reader) else 1 for a, own in enumerate(rows)], np.inf
        )
        for (i, made), (j, read) in itertools.product(
            enumerate(rows[source]), enumerate(rows[reader])
        ):
            ticks = [tiling.change_ns(made.writes, read.reads[port])]
            ticks += [tiling.change_ns(read.gradients[port], made.takes)] if training else []
            if None not in ticks:
                place = [0, 0, 0]
                place[source], place[reader] = i, j
                table[tuple(place)] = sum(ticks)
        total = total + table
    best = int(total.min())
    assert eliminate(repeated(mesh_problem(RESIDUAL, setting))).value == best


def test_leaving_out_keeps_the_optimum_under_any_limit(monkeypatch):
    setting = Setting(line(2), ADAM, (0, 1, 2, 3))
    peaks = {}
    for pruned in (True, False):
        if not pruned:
            monkeypatch.setattr(
                import_module("milp_plan.cost.mesh.strategies"), "undominated", list
            )
        problem = mesh_problem(RESIDUAL, setting)
        most = int(problem.strategies.usage.max()) * 3
        peaks[pruned] = (
            len(problem.labels),
            [
                optimum(mesh_problem(RESIDUAL, setting, limit=limit))
                for limit in range(500, most, 400)
            ],
        )
    assert peaks[True][0] < peaks[False][0]
    assert peaks[True][1] == peaks[False][1]
    assert len(set(peaks[True][1])) > 2


def test_equal_operators_share_strategies():
    setting = Setting(line(2))
    rows = MeshGraph(
        "twice",
        ("a", "b", "c"),
        (matmul(2, 1, 4, 4), matmul(2, 1, 4, 4), matmul(2, 1, 4, 4)),
        ((None,), (0,), (1,)),
    ).strategies(setting)
    assert rows[1] is not rows[2]  # the last one's output is not read
    assert all(not row.writes.partial for row in rows[2])
    assert any(row.writes.partial for row in rows[1])


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (((None,), (1,), (0, 1)), "an earlier operator"),
        (((None,), (0,), (0,)), "2, one per input"),
        (((None,), (0,)), "one name and one list of sources per operator"),
    ],
)
def test_defects_of_graphs(sources, said):
    with pytest.raises(InputError, match=said):
        MeshGraph("bad", RESIDUAL.names, RESIDUAL.operators, sources)


def test_ranks_must_agree():
    with pytest.raises(InputError, match="reshape in between"):
        MeshGraph("bad", ("a", "b"), (elementwise((4, 4)), matmul(4, 4, 2, 2)), ((None,), (0,)))
