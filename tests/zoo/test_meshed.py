"""Strategies of device meshes as options of planning problems, and as sharding problems."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import FULL, InputError, Objective
from milp_plan.core.sharding import ShardingPlan
from milp_plan.cost.clusters import cluster
from milp_plan.cost.devices import LinkSpec, device_spec
from milp_plan.cost.first import strategies_first, with_options
from milp_plan.cost.mesh import ADAM, Layout, Tiling, kinds, mesh
from milp_plan.elimination.repeated import repeated
from milp_plan.elimination.search import eliminate
from milp_plan.kinds.schedule.planners.lists import heft, list_critical_path, single_device
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.zoo import (
    Architecture,
    Layer,
    architecture,
    generate,
    mesh_on,
    meshed,
    shard,
    sharding,
)
from tests.support.brute import brute_force

PAIR = cluster("2xA100")
WIDTH = 4096
PRODUCT = kinds.matmul(1, 1, WIDTH, WIDTH)
SUM = kinds.elementwise((1, 1, WIDTH), inputs=2, linear=True)


def product(name, *inputs):
    return Layer(name, "linear", inputs, PRODUCT.flops, WIDTH**2, WIDTH, space=PRODUCT)


BRANCHES = Architecture(
    "branches",
    (
        product("left"),
        product("right"),
        Layer("sum", "add", ("left", "right"), WIDTH, 0, WIDTH, space=SUM),
    ),
    WIDTH,
    "none",
)


@pytest.fixture(scope="module")
def branches():
    return meshed(BRANCHES, PAIR, ("2",), batch=1)


def test_options_and_layouts(branches):
    options = {o.name: o for o in branches.graph.operator("left").options}
    assert set(options) == {"single", "2 copy > full", "2 x:n > 2:x", "2 x:k > sum:x"}
    split = options["2 x:k > sum:x"]
    assert (split.gang, split.writes["left.y"]) == (2, "2 sum:x")
    value = branches.graph.value("left.y")
    assert value.bytes == {FULL: 2 * WIDTH, "2 2:x": WIDTH, "2 sum:x": 2 * WIDTH}
    weights = branches.graph.value("left.weights").bytes
    assert weights[split.name] * 2 == weights["single"] == 2 * WIDTH**2
    assert branches.placements("left")[0].devices == ("A100.0",)
    assert split.duration_ticks["A100"] < options["single"].duration_ticks["A100"]


def test_resharding_is_that_of_the_cheapest_paths(branches):
    tiling = Tiling(mesh_on(PAIR, "2"), (1, 1, WIDTH), 2)
    names = {
        "2 2:x": Layout(((), (), ("x",))),
        "2 sum:x": Layout(((), (), ()), ("x",)),
        FULL: Layout(((), (), ())),
    }
    table = branches.graph.value("left.y").reshard_ticks
    for before, one in names.items():
        for after, other in names.items():
            ticks = tiling.change_ns(one, other)
            assert table.get((before, after)) == (None if before == after else ticks)


def test_no_pending_sum_from_elsewhere():
    """From another mesh a value comes whole: nothing pending can be asked for."""
    problem = meshed(BRANCHES, cluster("4xA100"), ("2", "2x2"), batch=1)
    table = problem.graph.value("left.y").reshard_ticks
    assert ("2 2:x", "2x2 2:x") in table
    assert not any(a[:2] != b[:2] and "sum" in b for a, b in table)
    gathered = Tiling(mesh_on(problem.cluster, "2"), (1, 1, WIDTH), 2)
    ticks = gathered.change_ns(Layout(((), (), ("x",))), Layout(((), (), ())))
    assert table["2 2:x", "2x2 2:x"] == ticks


def first(problem):
    """Strategies first: the cheapest in all, then the best schedule they leave."""
    found = strategies_first(problem)
    chosen = eliminate(repeated(found)).chosen
    offsets = found.strategies.offsets
    pairs = zip(found.operators, chosen, offsets[:-1], strict=True)
    picked = {name: found.labels[start + choice] for name, choice, start in pairs}
    return found, chosen, with_options(problem, picked)


def test_strategies_first_by_hand(branches):
    found, chosen, left = first(branches)
    assert [len(op.options) for op in left.graph.operators] == [1, 1, 1]
    options = {op.name: op.options[0] for op in left.graph.operators}
    assert options["left"].gang == 2
    total = sum(option.duration_ticks["A100"] for option in options.values())
    for name in ("left", "right"):
        value = left.graph.value(f"{name}.y")
        pair = (options[name].writes[value.name], options["sum"].reads[value.name])
        total += 0 if pair[0] == pair[1] else value.reshard_ticks[pair]
    assert eliminate(repeated(found)).value == total
    assert len(chosen) == 3


def test_the_joint_optimum_beats_strategies_first(branches):
    """Each branch on a device of its own, although halves of each would add up to less."""
    _, _, left = first(branches)
    before, after = brute_force(left), brute_force(branches)
    assert after[0] < before[0]
    assert verify(branches, after[1]).ok
    assert verify(branches, replace(before[1], fingerprint=None)).value == before[0]
    sites = {run.operator: run.placement.devices for run in after[1].runs}
    assert sites["left"] != sites["right"]
    assert len(sites["left"]) == len(sites["right"]) == 1


def test_a_chain_has_nothing_to_gain():
    chain = Architecture("chain", (product("one"), product("two", "one")), WIDTH, "none")
    problem = meshed(chain, PAIR, ("2",), batch=1)
    assert brute_force(problem)[0] == brute_force(first(problem)[2])[0]


def test_experts_get_tokens_of_their_own():
    problem = generate("moe-tiny", "2xH100", mode="inference", batch=1, meshes=("2",))
    graph = problem.graph
    assert problem.objective is Objective.MAKESPAN
    assert len(graph.operators) == 17
    assert graph.value("h0.dispatch.y.h0.expert1").consumers == ("h0.expert1",)
    combine = {option.name: option for option in graph.operator("h0.combine").options}
    summed = combine["2 x:sum > sum:x"]
    assert summed.reads["h0.expert0.y"] == "2 sum:x"
    assert summed.layout_read("h0.router.y") == FULL


@pytest.fixture(scope="module")
def step():
    """One training step of two branches under a loss, with all levels of ZeRO."""
    loss = kinds.elementwise((1, 1, WIDTH))
    layers = (*BRANCHES.layers, Layer("loss", "loss", ("sum",), WIDTH, 0, WIDTH, space=loss))
    network = replace(BRANCHES, layers=layers)
    pair = {"training": ADAM, "zero_levels": (0, 1, 2, 3), "batch": 2}
    return network, meshed(network, PAIR, ("2",), moved_bytes=28, **pair)


def test_a_training_step(step):
    graph = step[1].graph
    assert [operator.name for operator in graph.operators] == [
        *("left.F", "right.F", "sum.F", "loss.F"),
        *("loss.B", "sum.B", "right.B", "left.B", "left.U", "right.U"),
    ]
    assert graph.groups["left"] == ("left.F", "left.B", "left.U")
    assert graph.value("left.y").consumers == ("sum.F",)  # a sum's gradient needs no inputs
    assert graph.value("sum.y").consumers == ("loss.F", "loss.B")
    assert graph.value("left.dy.sum").producer == "sum.B"
    assert not graph.value("left.saved").reshard_ticks
    state = graph.value("left.state").bytes
    assert state["single"] == 12 * WIDTH**2
    assert state["2 x:b zero2 > 0:x"] * 2 == state["single"]
    summed = {option.name: option for option in graph.operator("sum.B").options}
    assert summed["2 copy > full"].duration_ticks == {"A100": 0}


def test_passes_of_a_layer_use_one_strategy(step):
    """Forward, backward and update with other strategies are not allowed together."""
    found = strategies_first(step[1])
    number = {name: place for place, name in enumerate(found.operators)}
    counts = found.strategies.counts
    (edge,) = [
        edge
        for edge, ends in enumerate(found.transitions.ends.tolist())
        if ends == [number["left.F"], number["left.B"]]
    ]
    _, allowed = found.table(edge)
    assert allowed.shape == (counts[number["left.F"]],) * 2
    assert (allowed == np.eye(len(allowed), dtype=bool)).all()


def test_strategies_cost_the_same_in_both_problems(step):
    """Forward, backward and edges of a planning problem are those of the sharding problem."""
    network, problem = step
    apart = strategies_first(problem)
    whole = sharding(network, PAIR, "2", batch=2, training=ADAM, zero_levels=(0, 1, 2, 3))
    rng = np.random.default_rng(7)
    offsets = whole.strategies.offsets
    compared = 0
    for _ in range(300):
        chosen = [int(rng.integers(n)) for n in whole.strategies.counts]
        names = {
            operator: f"2 {whole.labels[offsets[n] + chosen[n]].replace(' -> ', ' > ')}"
            for n, operator in enumerate(whole.operators)
        }
        total = cost(whole, chosen)
        places = []
        for n, operator in enumerate(apart.operators):
            labels = apart.labels[apart.strategies.offsets[n] : apart.strategies.offsets[n + 1]]
            places.append(labels.index(names[operator.partition(".")[0]]))
        updates = sum(
            int(apart.strategies.cost[apart.strategies.offsets[n] + places[n]])
            for n, operator in enumerate(apart.operators)
            if operator.endswith(".U")
        )
        both = cost(apart, places)
        assert (total is None) == (both is None)
        compared += total is not None
        assert total is None or both == total + updates
    assert compared > 20


def cost(problem, chosen):
    plan = ShardingPlan(problem.name, tuple(chosen))
    return verify_sharding(replace(problem, limit=None), plan).value


def test_a_training_step_has_plans(step):
    problem = step[1]
    for planner in (single_device, heft, list_critical_path):
        plan = planner(problem)
        assert plan is not None
        verdict = verify(problem, plan)
        assert verdict.ok, (planner.__name__, verdict.violations)
        used = {run.operator: run.placement.option for run in plan.runs}
        assert used["left.F"] == used["left.B"] == used["left.U"]


def test_axes_get_the_links_of_the_cluster():
    nodes = cluster("16xA100")
    grid = mesh_on(nodes, "2x8")
    outer, inner = (axis.link for axis in grid.axes)
    assert outer.bandwidth_bytes_per_s == 25 * 10**9 * 850 // 1000
    assert inner.bandwidth_bytes_per_s == 300 * 10**9 * 800 // 1000
    assert [axis.link for axis in mesh_on(nodes, "2x4").axes] == [inner, inner]


def test_sharding_of_a_transformer():
    """The limit is a device's; ZeRO lets fewer bytes do, at a price."""
    pair = cluster("2xA100")
    network = architecture("gpt-tiny", "block")
    plain = sharding(network, pair, "2", batch=8, training=ADAM, limited=False)
    shared = sharding(network, pair, "2", batch=8, training=ADAM, zero_levels=(0, 3))
    assert (plain.limit, shared.limit) == (None, 80 * 10**9)
    assert plain.name == "gpt-tiny-training-2xA100-b8"
    assert plain.operators == ("embed", "h0.attention", "h0.mlp", "head", "loss")
    assert least_usage(shared) < least_usage(plain)
    best = eliminate(repeated(plain))
    assert best.exact
    assert best.value < plain.strategies.cost[plain.strategies.offsets[:-1]].sum()


def least_usage(problem):
    offsets = problem.strategies.offsets
    return sum(problem.strategies.usage[start:stop].min() for start, stop in pairwise(offsets))


def test_shard_by_name():
    problem = shard("gpt-tiny", "2xA100", "2", granularity="block", memory_scale="1/2", name="mine")
    assert (problem.name, problem.limit) == ("mine", 40 * 10**9)
    assert problem.provenance["architecture"] == "gpt-tiny"
    for wrong in ({"mode": "guess"}, {"optimizer": "guess"}, {"memory_scale": "0"}):
        with pytest.raises(InputError):
            shard("gpt-tiny", "2xA100", "2", **wrong)


@pytest.mark.parametrize(
    ("text", "shapes", "said"),
    [
        ("2xA100+2xH100", ("2",), "one device class"),
        ("2xA100", ("4",), "at most 2 devices"),
        ("8xA100", ("6",), r"a size of one of the cluster's groups, \[2, 4, 8\]"),
        ("4xA100", ("4", "2x2"), "meshes of different numbers of devices"),
        ("4xA100", ("1",), "meshes of different numbers of devices"),
        ("4xA100", ("2x2x2",), "one or two sizes"),
    ],
)
def test_meshes_that_do_not_fit(text, shapes, said):
    with pytest.raises(InputError, match=said):
        meshed(BRANCHES, cluster(text), shapes, batch=1)


def test_layers_need_loops():
    bare = replace(BRANCHES.layers[0], space=None)
    network = replace(BRANCHES, layers=(bare, *BRANCHES.layers[1:]))
    with pytest.raises(InputError, match="layer 'left' space"):
        meshed(network, PAIR, ("2",), batch=1)
    with pytest.raises(InputError, match="batch"):
        meshed(BRANCHES, PAIR, ("2",), batch=0)


def test_every_trained_layer_leads_to_the_loss():
    """A layer that only decides where others go gets no gradient."""
    features = PRODUCT.output
    routed = replace(
        PRODUCT,
        inputs=(replace(features, name="x"), replace(features, name="routes", gradient=False)),
    )
    last = Layer("two", "linear", ("one", "lost"), PRODUCT.flops, WIDTH**2, WIDTH, space=routed)
    network = Architecture("lost", (product("one"), product("lost"), last), WIDTH, "none")
    with pytest.raises(InputError, match="layer 'lost': found no gradient comes back to it"):
        meshed(network, PAIR, ("2",), batch=1, training=ADAM)
    assert meshed(network, PAIR, ("2",), batch=1).graph.operators[-1].name == "two"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"mode": "training", "optimizer": "guess"}, "adam, sgd"),
        ({"micro_batches": 2}, "1 with meshes"),
        ({"options": ("all2",)}, "none with meshes"),
    ],
)
def test_meshes_go_with_whole_batches(more, said):
    with pytest.raises(InputError, match=said):
        generate("moe-tiny", "2xA100", **{"mode": "inference", "meshes": ("2",), **more})


def test_links_must_exist():
    lonely = replace(PAIR, channels=PAIR.channels[:0])
    with pytest.raises(InputError, match=r"none from A100.0 to A100.1"):
        mesh_on(lonely, "2")
    assert mesh("2", device_spec("A100"), (LinkSpec("l", 1, 1, 1),)).devices == 2


def test_micro_batches_and_blocks_by_name():
    problem = shard("gpt-tiny", "2xA100", "2", batch=8, micro_batches=4, blocks=3)
    assert problem.name == "gpt-tiny-3-blocks-training-2xA100-b8"
    assert "h2.add2@3" in problem.operators
    assert "h3.add2@3" not in problem.operators
    assert "h2.qkv.weights" in problem.operators
    assert problem.provenance["micro-batches"] == "4"
    assert problem.intervals[-1].tolist() == [3, 4]
    one = shard("gpt-tiny", "2xA100", "2", batch=2)
    assert {name.split("@")[0] for name in problem.operators} >= set(one.operators)
    for wrong in ({"micro_batches": 3}, {"micro_batches": 0}, {"blocks": 0}):
        with pytest.raises(InputError):
            shard("gpt-tiny", "2xA100", "2", batch=8, **wrong)
    with pytest.raises(InputError, match="blocks of resnet50"):
        shard("resnet50", "2xA100", "2", blocks=2)
