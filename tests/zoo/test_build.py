"""From layers to operators and values."""

from dataclasses import replace

import pytest

from milp_plan.core import UPDATE_KIND, ComputationGraph, InputError, Objective
from milp_plan.cost.clusters import cluster
from milp_plan.zoo import Architecture, Layer, inference, training_step
from milp_plan.zoo.moe import moe
from milp_plan.zoo.transformer import gpt

ONE = cluster("1xA100")
PAIR = cluster("2xA100")

CHAIN = Architecture(
    "chain",
    (
        Layer("first", "linear", (), 2_000_000, 1000, 100, splits=("batch", "column")),
        Layer("bend", "elementwise", ("first",), 100, 0, 100, splits=("batch", "column")),
        Layer("second", "linear", ("bend",), 3_000_000, 500, 50, splits=("batch", "row")),
        Layer("loss", "loss", ("second",), 50, 0, 1),
    ),
    30,
    "none",
)


def readers(graph: ComputationGraph, value: str) -> set[str]:
    return set(graph.value(value).consumers)


def test_training_chain():
    graph = training_step(CHAIN, ONE, batch=4).graph
    assert [operator.name for operator in graph.operators] == [
        "first.F",
        "bend.F",
        "second.F",
        "loss.F",
        "loss.B",
        "second.B",
        "second.W",
        "bend.B",
        "first.W",
        "first.U",
        "second.U",
    ]
    # the elementwise backward pass needs its input, a product's weights need theirs
    assert readers(graph, "first.y") == {"bend.F", "bend.B"}
    assert readers(graph, "bend.y") == {"second.F", "second.W"}
    assert readers(graph, "second.y") == {"loss.F", "loss.B"}
    assert readers(graph, "second.dy.loss") == {"second.B", "second.W"}
    assert readers(graph, "first.dy.bend") == {"first.W"}
    assert readers(graph, "second.weights") == {"second.F", "second.B", "second.U"}
    assert readers(graph, "second.dw") == {"second.U"}
    assert graph.groups == {
        "first": ("first.F", "first.W", "first.U"),
        "second": ("second.F", "second.B", "second.W", "second.U"),
    }


def test_bytes():
    graph = training_step(CHAIN, ONE, batch=4).graph
    size = {value.name: value.bytes["full"] for value in graph.values}
    assert size["first.y"] == 4 * 100 * 2
    assert size["second.dy.loss"] == 4 * 50 * 2
    # 2 + 2 + 12 bytes per parameter
    parts = ("first.weights", "first.dw", "first.state")
    assert [size[name] for name in parts] == [2000, 2000, 12_000]


def test_micro_batches_accumulate_in_a_buffer():
    problem = training_step(CHAIN, ONE, batch=4, micro_batches=2)
    graph = problem.graph
    size = {value.name: value.bytes["full"] for value in graph.values}
    assert size["first.y@0"] == 2 * 100 * 2
    assert (size["first.weights"], size["first.dw@1"], size["first.state"]) == (2000, 0, 14_000)
    assert {value.name for value in graph.inputs["first.U"]} == {
        "first.weights",
        "first.state",
        "first.dw@0",
        "first.dw@1",
    }
    assert sum(operator.kind == UPDATE_KIND for operator in graph.operators) == 2
    assert problem.provenance["micro_batches"] == "2"


def test_backward_work_is_twice_the_forward_work():
    """With large enough flops the roofline's compute side is all there is."""
    heavy = replace(
        CHAIN,
        layers=tuple(replace(layer, flops=10**15) for layer in CHAIN.layers),
    )
    graph = training_step(heavy, ONE, batch=1).graph
    ticks = {op.name: op.options[0].duration_ticks["A100"] for op in graph.operators}
    unit = ticks["second.F"] - 5_000
    assert ticks["second.B"] - 5_000 == ticks["second.W"] - 5_000 == unit
    assert abs(ticks["bend.B"] - 5_000 - 2 * unit) <= 1
    # nothing asks for the gradient of the input batch
    assert not graph.has_operator("first.B")


def test_optimizers():
    adam, sgd = (training_step(CHAIN, ONE, batch=1, optimizer=name) for name in ("adam", "sgd"))
    assert adam.graph.value("first.state").bytes["full"] == 12_000
    assert sgd.graph.value("first.state").bytes["full"] == 8_000
    with pytest.raises(InputError, match="adam, sgd"):
        training_step(CHAIN, ONE, batch=1, optimizer="guess")


def test_several_readers_accumulate_and_additions_hand_on():
    graph = training_step(gpt("gpt-tiny"), ONE, batch=2).graph
    # the stream is read by the norm and by the addition, whose gradient is that of its output
    assert {value.name for value in graph.inputs["h0.add1.A"]} == {
        "h0.add1.dy.h0.ln2",
        "h0.add2.dy.ln_f",
    }
    assert not graph.has_operator("h0.add1.B")
    assert readers(graph, "h0.add1.dy") == {"h0.proj.B", "h0.proj.W", "embed.A"}
    assert graph.operator("embed.A").kind == "accumulate"
    assert graph.operator("embed.A").group is None


def test_gradient_that_reaches_a_layer_twice_is_read_once():
    layers = (
        Layer("x", "linear", (), 10, 10, 10),
        Layer("y", "linear", (), 10, 10, 10),
        Layer("sum", "add", ("x", "y"), 10, 0, 10),
        Layer("twice", "add", ("x", "sum"), 10, 0, 10),
        Layer("loss", "loss", ("twice",), 10, 0, 1),
    )
    graph = training_step(Architecture("twice", layers, 1, "none"), ONE, batch=1).graph
    assert readers(graph, "twice.dy.loss") == {"x.W", "y.W"}


def test_tied_weights():
    graph = training_step(gpt("gpt-tiny"), ONE, batch=2).graph
    owners = {"embed.F", "embed.U"}
    assert readers(graph, "embed.weights") == owners | {"head.F", "head.B", "head.U"}
    assert {"embed.dw", "head.dw"} <= {value.name for value in graph.inputs["embed.U"]}
    assert readers(graph, "embed.new") == {"head.U"}
    assert not graph.has_value("head.weights")
    assert graph.operator("head.U").kind == UPDATE_KIND


def test_experts_get_their_share_and_the_router_no_gradient_from_dispatch():
    graph = training_step(moe("moe-tiny"), ONE, batch=1).graph
    share = graph.value("h0.dispatch.y.h0.expert3")
    assert set(share.consumers) == {"h0.expert3.F", "h0.expert3.B", "h0.expert3.W"}
    assert share.bytes["full"] == 256 * 512 * 2
    sources = {value.name for value in graph.inputs["h0.dispatch.B"]}
    assert {f"h0.dispatch.dy.h0.expert{e}" for e in range(4)} <= sources
    assert not graph.has_operator("h0.dispatch.A")
    assert [value.name for value in graph.outputs["h0.dispatch.B"]] == ["h0.ln2.dy.h0.dispatch"]
    assert readers(graph, "h0.router.dy.h0.combine") == {"h0.router.B", "h0.router.W"}


def test_fused_layers_save_for_training_only():
    network = gpt("gpt-tiny", granularity="block")
    graph = training_step(network, ONE, batch=2).graph
    assert readers(graph, "h0.mlp.saved") == {"h0.mlp.B", "h0.mlp.W"}
    assert not inference(network, ONE, batch=2).graph.has_value("h0.mlp.saved")


def test_inference_stops_before_the_loss():
    problem = inference(CHAIN, PAIR, batch=4, objective=Objective.PEAK_MEMORY, name="small")
    assert [operator.name for operator in problem.graph.operators] == [
        "first.F",
        "bend.F",
        "second.F",
    ]
    assert problem.graph.value("second.y").consumers == ()
    assert not problem.graph.has_value("first.state")
    assert (problem.name, problem.objective) == ("small", Objective.PEAK_MEMORY)
    unrolled = inference(CHAIN, PAIR, batch=4, micro_batches=4).graph
    assert len(unrolled.operators) == 12


def test_split_options_agree_from_layer_to_layer():
    graph = training_step(CHAIN, PAIR, batch=4, options=["all2"]).graph
    assert [option.name for option in graph.operator("first.F").options] == [
        "single",
        "batch2",
        "column2",
    ]
    first, bend, second = (
        graph.operator(name).option(option)
        for name, option in (("first.F", "column2"), ("bend.F", "column2"), ("second.F", "row2"))
    )
    assert first.layout_written("first.y") == bend.layout_read("first.y") == "column2"
    assert bend.layout_written("bend.y") == second.layout_read("bend.y") == "column2"
    assert second.layout_written("second.y") == "full"
    assert first.layout_read("first.weights") == "column2"
    assert second.layout_read("second.weights") == "row2"
    back = graph.operator("second.B").option("row2")
    assert back.layout_read("second.dy.loss") == "full"
    assert back.layout_written("bend.dy.second") == "column2"
    assert graph.value("first.weights").bytes == {"full": 2000, "column2": 1000}
    assert graph.value("first.y").bytes == {"full": 800, "batch2": 400, "column2": 400}


def test_every_change_of_layout_between_neighbours_is_allowed():
    problem = training_step(gpt("gpt-tiny"), PAIR, batch=4, options=["all2"])
    for value in problem.graph.values:
        for before in value.bytes:
            for after in value.bytes:
                allowed = before == after or (before, after) in value.reshard_ticks
                assert allowed != value.persistent or before == after


def test_update_of_whole_weights_is_not_divided():
    graph = training_step(CHAIN, PAIR, batch=4, options=["batch2", "column2"]).graph
    update = graph.operator("first.U")
    single, batch, column = (update.option(name) for name in ("single", "batch2", "column2"))
    assert single.duration_ticks == batch.duration_ticks
    assert column.duration_ticks["A100"] <= single.duration_ticks["A100"]
    assert column.layout_read("first.state") == "column2"


def test_workspace_is_shared_by_the_gang():
    roomy = replace(
        CHAIN, layers=(replace(CHAIN.layers[0], workspace_elements=5), *CHAIN.layers[1:])
    )
    graph = inference(roomy, PAIR, batch=2, options=["batch2"]).graph
    sizes = [option.workspace_bytes for option in graph.operator("first.F").options]
    assert sizes == [20, 10]


def test_experts_split_by_expert_exchange_tokens():
    layer = Layer("mix", "expert", ("first",), 10, 400, 100, splits=("expert",))
    network = Architecture("mixed", (CHAIN.layers[0], layer), 30, "none")
    graph = inference(network, PAIR, batch=4, options=["expert2"]).graph
    option = graph.operator("mix.F").option("expert2")
    assert (option.layout_read("first.y"), option.layout_written("mix.y")) == ("batch2", "batch2")
    assert option.layout_read("mix.weights") == "expert2"
    single = graph.operator("mix.F").option("single")
    assert option.duration_ticks["A100"] > single.duration_ticks["A100"]


@pytest.mark.parametrize(
    ("batch", "micro_batches", "words"),
    [(0, 1, "batch: found 0"), (4, 0, "micro_batches: found 0"), (4, 3, "a divisor")],
)
def test_bad_counts(batch, micro_batches, words):
    for build in (training_step, inference):
        with pytest.raises(InputError, match=words):
            build(CHAIN, ONE, batch=batch, micro_batches=micro_batches)


def test_layer_that_leads_nowhere():
    stray = Layer("stray", "linear", ("first",), 10, 10, 10)
    layers = (CHAIN.layers[0], stray, *CHAIN.layers[1:])
    with pytest.raises(InputError, match="no path to the loss"):
        training_step(replace(CHAIN, layers=layers), ONE, batch=1)


def test_layers_without_weights_before_the_first_get_no_gradient():
    pool = Layer("pool", "pool", (), 10, 0, 10)
    product = Layer("product", "linear", ("pool",), 10, 10, 10)
    loss = Layer("loss", "loss", ("product",), 1, 0, 1)
    network = Architecture("pooled", (pool, product, loss), 40, "none")
    names = [op.name for op in training_step(network, ONE, batch=1).graph.operators]
    assert names == ["pool.F", "product.F", "loss.F", "loss.B", "product.W", "product.U"]


def test_same_arguments_same_problem():
    first, second = (training_step(CHAIN, PAIR, batch=4, options=["all2"]) for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert first.provenance["device A100"].startswith("2 devices; 312000000000000 flop/s")
