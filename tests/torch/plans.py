"""Placements by hand for two layers of ``split_gpt2``: what the literature does, axis by axis.

``data`` cuts the batch; ``tensor`` is Megatron's (two reductions per layer and pass),
``vocabulary`` cuts the embedding and the head as well, ``sequence`` keeps the residual stream cut
along the tokens, ``fsdp`` keeps cut weights and gathers them. An axis is a function from names of
parameters to placements; a mesh of two axes puts two of them side by side.
"""

from dataclasses import dataclass, field

from milp_plan.io.placement_wire import Axis, TorchPlacements

ROWS = ("query.weight", "query.bias", "key.weight", "key.bias", "value.weight", "value.bias")
COLUMN_PARALLEL = (*ROWS, "up.weight", "up.bias")
ROW_PARALLEL = ("attn.out.weight", "down.weight")

FORWARD_SUMS = ("view_11", "view_15", "view_27", "view_31")
"""Results of the second matrix of attention and of the feed-forward network, per layer."""
BACKWARD_SUMS = ("view_43", "add_7", "view_65", "add_11")
"""Gradients of what these two read, per layer, from the last one."""
NORMED = ("getitem", "getitem_5", "getitem_8", "getitem_13", "getitem_16")
"""Results of the normalisations."""
RESIDUAL_GRADIENTS = {
    "view_38": "getitem_21",
    "view_44": "add_5",
    "view_60": "add_8",
    "view_66": "add_9",
}
"""Reader -> gradient of the residual stream, as the second matrices read it."""

EMBEDDED, LOGITS, LOGIT_GRADIENT, HEAD_INPUT_GRADIENT = "embedding", "view_33", "view_36", "view_37"
EMBEDDING_GRADIENT, COUNT, PLACES = "embedding_dense_backward_1", "getitem_20", "arange"


@dataclass
class Along:
    """What a plan says along one axis; names without an entry are whole."""

    inputs: dict = field(default_factory=dict)
    gradients: dict = field(default_factory=dict)
    pins: dict = field(default_factory=dict)
    reads: dict = field(default_factory=dict)
    otherwise: str = "R"
    """Of activations that another axis pins."""
    pending: tuple = ()
    """Of those, the ones that are sums to come along this axis."""


def replicated(_names):
    return Along()


def data(_names):
    tokens = {"args[0]": "S(0)", "args[1]": "S(0)"}
    return Along(tokens, pins={COUNT: "R"}, otherwise="S(0)", pending=(EMBEDDING_GRADIENT,))


def tensor(names):
    cut = {name: "S(0)" for name in names if name.endswith(COLUMN_PARALLEL)}
    cut |= {name: "S(1)" for name in names if name.endswith(ROW_PARALLEL)}
    pins = dict.fromkeys((*FORWARD_SUMS, *BACKWARD_SUMS), "R")
    return Along(cut, dict(cut), pins)


def vocabulary(names):
    along = tensor(names)
    along.inputs["wte.weight"] = along.gradients["wte.weight"] = "S(0)"
    along.pins |= {EMBEDDED: "R", LOGITS: "R", LOGIT_GRADIENT: "S(1)", HEAD_INPUT_GRADIENT: "R"}
    along.pins[EMBEDDING_GRADIENT] = "S(0)"
    return along


def sequence(names):
    along = tensor(names)
    along.inputs["args[0]"] = "S(1)"
    along.pins = dict.fromkeys((*FORWARD_SUMS, *BACKWARD_SUMS, HEAD_INPUT_GRADIENT), "S(1)")
    along.pins |= dict.fromkeys(NORMED, "R") | {PLACES: "S(0)", EMBEDDING_GRADIENT: "R"}
    along.reads = {reader: {read: "R"} for reader, read in RESIDUAL_GRADIENTS.items()}
    return along


def fsdp(names):
    along = data(names)
    along.inputs |= dict.fromkeys(names, "S(0)")
    along.gradients = dict.fromkeys(names, "S(0)")
    along.pins |= {f"primals_{place + 2}": "R" for place in range(len(names) - 1)}
    along.pins[f"primals_{len(names) + 1}"] = "R"
    return along


def exchange(names):
    """As ``data``, with one activation cut by features in between: nobody would do that."""
    along = data(names)
    along.pins[EMBEDDED] = "S(2)"
    along.reads = {"add": {EMBEDDED: "S(0)"}}
    return along


PLANS = {
    "replicated": ((2,), (replicated,)),
    "data": ((2,), (data,)),
    "tensor": ((2,), (tensor,)),
    "vocabulary": ((2,), (vocabulary,)),
    "sequence": ((2,), (sequence,)),
    "fsdp": ((2,), (fsdp,)),
    "exchange": ((2,), (exchange,)),
    "data-4": ((4,), (data,)),
    "tensor-4": ((4,), (tensor,)),
    "data-2x2": ((2, 2), (data, data)),
    "tensor-2x2": ((2, 2), (data, tensor)),
    "vocabulary-2x2": ((2, 2), (data, vocabulary)),
}
PARAMETERS = 36
COLLECTIVES = {
    "data": {"all_reduce": PARAMETERS + 1},  # the number of tokens as well
    "tensor": {"all_reduce": 8},
    "vocabulary": {"all_reduce": 8 + 2, "all_gather": 1},  # embedding, head's input; logits
    "sequence": {
        "all_gather": 5 + 4,  # normalised activations, gradients of the residual stream
        "reduce_scatter": 8,
        "all_reduce": 5 * 2 + 2,  # weights of normalisations, both embeddings
    },
    "fsdp": {"all_gather": PARAMETERS, "reduce_scatter": PARAMETERS, "all_reduce": 1},
    "exchange": {"all_reduce": PARAMETERS + 1, "all_gather": 2},  # gloo has no all-to-all
    "data-4": {"all_reduce": PARAMETERS + 1},
    "tensor-4": {"all_reduce": 8},
    "data-2x2": {"all_reduce": 2 * (PARAMETERS + 1)},
    "tensor-2x2": {"all_reduce": 8 + PARAMETERS + 1},
    "vocabulary-2x2": {"all_reduce": 8 + 2 + PARAMETERS + 1, "all_gather": 1},
}
"""Counted by hand."""


def placements(name, names, graph="", torch=""):
    """A plan as its file says it; ``names`` are the parameters, tied ones once."""
    sizes, makers = PLANS[name]
    axes = [make(names) for make in makers]

    def joined(table, key):
        return "".join(getattr(axis, table).get(key, "R") for axis in axes)

    def pin(key):
        return "".join(
            axis.pins.get(key, "P" if key in axis.pending else axis.otherwise) for axis in axes
        )

    assert len(axes) == 1 or not any(axis.reads for axis in axes)
    return TorchPlacements(
        format="milp-plan-torch-placements",
        version=1,
        problem=f"split-gpt2 {name}",
        graph=graph,
        torch=torch,
        mesh=[
            Axis(f"{make.__name__}{place}", size)
            for place, (make, size) in enumerate(zip(makers, sizes, strict=True))
        ],
        inputs={key: joined("inputs", key) for key in (*names, "args[0]", "args[1]")},
        gradients={key: joined("gradients", key) for key in names},
        pins={key: pin(key) for key in dict.fromkeys(key for axis in axes for key in axis.pins)},
        reads=axes[0].reads,
        collectives=COLLECTIVES.get(name, {}),
    )
