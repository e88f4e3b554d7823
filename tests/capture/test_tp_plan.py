"""Styles of modules from a plan's labels, and everything they cannot say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from milp_plan.capture.checkpoints import FINGERPRINT
from milp_plan.capture.sharding import INPUT
from milp_plan.capture.tp_plan import tp_plan
from milp_plan.core import InputError
from milp_plan.core.sharding import ShardingPlan, sharding_problem

LLAMA = {
    "model.embed_tokens": ("embedding", "S(0),R > P > R"),
    "model.layers.0.self_attn.q_proj": ("mm", "R,S(1) > S(1)"),
    "model.layers.0.self_attn.o_proj": ("mm", "S(1),S(0) > P"),
    "model.layers.0.input_layernorm": ("mul", "R,R > R"),
    "model.layers.1.self_attn.q_proj": ("mm", "R,S(1) > S(1)"),
    "model.layers.1.self_attn.o_proj": ("mm", "S(1),S(0) > P"),
    "lm_head": ("mm", "R,S(1) > S(1)"),
}
GPT2 = {
    "transformer.wte": ("embedding", "R,R > R"),
    "transformer.h.0.attn.c_attn": ("addmm", "S(0),R,S(1) > S(1)"),
    "transformer.h.0.attn.c_proj": ("addmm", "R,S(1),S(0) > P"),
    "transformer.h.0.mlp.c_fc": ("addmm", "R,R,R > R"),
}


def problem_of(modules, *, readers=()):
    """A chain: weights of each module, turned for ``mm`` as those of linear layers, its product."""
    names, labels, edges, before = ["input args[0]"], [" > R"], [], 0
    for count, (module, (kind, label)) in enumerate(modules.items()):
        reads = label.split(">")[0].strip().split(",")
        place = {"embedding": 0, "mm": 1, "addmm": 2, "mul": 1}[kind]
        lies = {"S(1)": "S(0)", "S(0)": "S(1)"}.get(reads[place], "R")
        names.append(f"{INPUT}{module}.weight")
        labels.append(f" > {lies if kind == 'mm' else reads[place]}")
        weights = len(names) - 1
        if kind == "mm":
            names.append(f"t_{count}")
            labels.append(f"{lies} > {reads[1]}")
            edges.append((weights, weights + 1))
            weights += 1
        names.append(f"{kind}_{count}")
        labels.append(label)
        here = len(names) - 1
        order = {"embedding": [weights, 0], "addmm": [0, before, weights]}
        edges += [(one, here) for one in order.get(kind, [before, weights])]
        before = here
    for name, label in readers:
        names.append(name)
        labels.append(label)
        edges.append((before, len(names) - 1))
    made = sharding_problem("m", [[0]] * len(names), edges={key: [[0]] for key in edges})
    reported = {FINGERPRINT: "f", "mesh": "2", "captured with": "PyTorch 2.13.0"}
    return replace(made, operators=tuple(names), labels=tuple(labels), provenance=reported)


def styles(modules, **more):
    problem = problem_of(modules, **more)
    return tp_plan(problem, ShardingPlan("m", (0,) * len(problem.operators)))


def test_layers_of_a_llama_share_patterns():
    assert styles(LLAMA, readers=[("_log_softmax", "R > R")]) == {
        "model.embed_tokens": "embedding_rowwise",
        "model.layers.*.self_attn.q_proj": "colwise",
        "model.layers.*.self_attn.o_proj": "rowwise",
        "lm_head": "colwise_rep",
    }


def test_matrices_of_gpt2_are_not_turned():
    assert styles(GPT2) == {
        "transformer.h.*.attn.c_attn": "colwise",
        "transformer.h.*.attn.c_proj": "rowwise",
    }


def test_activations_that_stay_cut_are_no_gathered_columns():
    assert styles(LLAMA, readers=[("view_1", "S(1) > S(1)")])["lm_head"] == "colwise"


@pytest.mark.parametrize(
    ("module", "call", "said"),
    [
        ("lm_head", ("mm", "S(0),R > S(0)"), r"module 'lm_head': found S\(0\), R"),
        ("model.layers.1.self_attn.q_proj", ("mm", "R,R > R"), r"q_proj.*colwise.*whole"),
        ("model.layers.0.input_layernorm", ("mul", "R,S(0) > S(0)"), "no product reads it"),
    ],
)
def test_what_styles_cannot_say_is_refused_with_the_module(module, call, said):
    with pytest.raises(InputError, match=said):
        styles(LLAMA | {module: call})


def test_gathered_weights_are_no_style():
    problem = problem_of(GPT2)
    place = problem.operators.index("input transformer.h.0.mlp.c_fc.weight")
    labels = list(problem.labels)
    labels[place] = " > S(0)"
    with pytest.raises(InputError, match="c_fc"):
        tp_plan(replace(problem, labels=tuple(labels)), ShardingPlan("m", (0,) * len(labels)))


def test_two_axes_are_refused():
    problem = problem_of(GPT2)
    reported = dict(problem.provenance) | {"mesh": "2x2"}
    with pytest.raises(InputError, match="one axis"):
        tp_plan(replace(problem, provenance=reported), ShardingPlan("m", (0,)))
