"""Training problems as JSON; described in ``instances/formats/training.md``."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import msgspec

from milp_plan.core import Finding, InputError, UnsupportedProblemError
from milp_plan.io.files import Document
from milp_plan.io.wire import Count, Positive, Strict, decode, encode, mirror

from .api import training_problem
from .architecture import Architecture
from .blocks import Attention, Block, Mlp, Moe, Prediction
from .cluster import training_cluster
from .efficiency import Efficiency, WireEfficiency, as_document, efficiency_from, shipped_for
from .memory import default_reserve
from .models import MODELS, model
from .problem import TrainingProblem
from .profile import MeasuredBlock, Profile
from .rows import MOST_BLOCKS

MARKER = "milp-plan-training"

Times = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""Seconds."""

Repeats = Annotated[int, msgspec.Meta(ge=1, le=MOST_BLOCKS)]

WireAttention = mirror(Attention)
WireMlp = mirror(Mlp)
WireMoe = mirror(Moe)
WireLayer = mirror(
    MeasuredBlock,
    **dict.fromkeys(("forward_s", "backward_s", "weight_s"), Times),
    **dict.fromkeys(("hidden", "attention", "feed_forward", "norm_bias", "tokens", "frozen"), None),
    needs_input_gradient=None,
)


class WireBlock(Strict):
    """Equal consecutive blocks; either ``mlp`` or ``experts``."""

    hidden: Positive
    attention: WireAttention  # type: ignore[valid-type]
    mlp: WireMlp | None = None  # type: ignore[valid-type]
    experts: WireMoe | None = None  # type: ignore[valid-type]
    repeats: Repeats = 1
    norm_bias: bool = False
    tokens: Positive | None = None
    frozen: bool = False
    needs_input_gradient: bool = True


class WirePrediction(Strict):
    """Multi-token prediction."""

    modules: Positive
    block: WireBlock


WireModel = mirror(
    Architecture,
    blocks=tuple[WireBlock, ...],
    sequence=Positive,
    prediction=WirePrediction | None,
    notes=None,
)


class WireProfile(Strict):
    """Measured layers in the order of the model."""

    name: str
    samples: Positive
    layers: tuple[WireLayer, ...]  # type: ignore[valid-type]


class WireJob(Strict, kw_only=True):
    """What files of problems about a model on a cluster have in common."""

    format: str
    version: Literal[1]
    model: str | WireModel | None = None  # type: ignore[valid-type]
    cluster: str
    memory_bytes: Positive | tuple[Positive, ...] | None = None
    reserve_bytes: Count | None = None
    fixed: dict[str, Any] = msgspec.field(default_factory=dict)
    rates: WireEfficiency | None = None
    provenance: dict[str, str] = msgspec.field(default_factory=dict)


class WireProblem(WireJob, kw_only=True):
    """A job: a model, a cluster, a batch."""

    format: Literal["milp-plan-training"]
    global_batch: Positive
    measured: WireProfile | None = None
    sequence: Positive | None = None
    framework: str = ""
    host: bool = False


def read(document: Document) -> TrainingProblem:
    """Read a problem.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    given = decode(document.data, WireProblem, document.file, MARKER)
    try:
        if (given.model is None) == (given.measured is None):
            found = "neither" if given.model is None else "both"
            finding = Finding("model", found, "either model or measured", "give one of them")
            raise InputError([finding])
        arguments = job_arguments(given)
        if given.measured is not None:
            arguments["model"] = _profile(given.measured)
        return training_problem(
            **arguments,
            global_batch=given.global_batch,
            sequence=given.sequence,
            framework=given.framework,
            host=given.host,
        )
    except InputError as error:
        raise error.in_file(document.file) from None


def to_json(problem: TrainingProblem) -> bytes:
    """Return a problem as JSON text; equal problems give equal bytes.

    Raises
    ------
    UnsupportedProblemError
        Its cluster is not what its name says.
    """
    known, cluster = problem.architecture, problem.cluster
    rates = shipped_for(problem.framework, cluster.device_names, known.has_experts)
    members = job_members(problem, default_reserve(cluster), rates)
    profile = known if isinstance(known, Profile) else None
    return encode(
        WireProblem(
            **members,
            format="milp-plan-training",
            global_batch=problem.global_batch,
            measured=None if profile is None else _wire_profile(profile),
            sequence=None if problem.sequence == known.sequence else problem.sequence,
            framework=problem.framework,
            host=problem.host,
        )
    )


def job_arguments(given: WireJob) -> dict[str, Any]:
    """Return the members that all kinds share as arguments of the functions that make problems."""
    arguments = {name: getattr(given, name) for name in WireJob.__struct_fields__[2:]}
    rates = arguments.pop("rates")
    if isinstance(given.model, WireModel):
        arguments["model"] = _architecture(given.model)
    return arguments | {"efficiency": _rates(rates)}


def job_members(problem: Any, usual_reserve: int, usual_rates: Efficiency) -> dict[str, Any]:
    """Return the members of a problem's file that all kinds share; what is usual is left out.

    Raises
    ------
    UnsupportedProblemError
        The problem's cluster is not what its name says.
    """
    known, cluster, reserve = problem.architecture, problem.cluster, problem.reserve_bytes
    usual = training_cluster(cluster.name)
    memory: Any = None if cluster == usual else cluster.memories
    if cluster != (usual if memory is None else usual.with_memory(*memory)):
        raise UnsupportedProblemError(f"cluster {cluster.name} has links of its own")
    if memory is not None and len(set(memory)) == 1:
        memory = memory[0]
    return {
        "version": 1,
        "model": _model(known),
        "cluster": cluster.name,
        "memory_bytes": memory,
        "reserve_bytes": None if reserve == usual_reserve else reserve,
        "fixed": dict(problem.fixed),
        "rates": _wire_rates(problem.efficiency, usual_rates),
        "provenance": dict(problem.provenance),
    }


def _model(known: Architecture) -> Any:
    if known.name in MODELS and known == model(known.name):
        return known.name
    return None if isinstance(known, Profile) else _wire_model(known)


def _profile(measured: WireProfile) -> Profile:
    layers = tuple(
        MeasuredBlock(1, Attention(1, 1, 1), Mlp(1), **msgspec.structs.asdict(layer))
        for layer in measured.layers
    )
    return Profile(measured.name, layers, 0, 1, samples=measured.samples)


def _architecture(given: Any) -> Architecture:
    entries: dict[str, Any] = msgspec.structs.asdict(given)
    entries["blocks"] = tuple(
        block for wire in entries["blocks"] for block in (_block(wire),) * wire.repeats
    )
    if len(entries["blocks"]) > MOST_BLOCKS:
        found = f"{len(entries['blocks']):,} blocks"
        raise InputError([Finding("model", found, f"at most {MOST_BLOCKS:,}", "correct repeats")])
    if entries["prediction"] is not None:
        wire = entries["prediction"]
        entries["prediction"] = Prediction(wire.modules, _block(wire.block))
    return Architecture(**entries)


def _block(wire: WireBlock) -> Block:
    given = msgspec.structs.asdict(wire)
    mlp, experts, _ = (given.pop(name) for name in ("mlp", "experts", "repeats"))
    if (mlp is None) == (experts is None):
        found = "neither" if mlp is None else "both"
        raise InputError([Finding("blocks", found, "either mlp or experts", "give one of them")])
    attention = Attention(**msgspec.structs.asdict(given.pop("attention")))
    part = Mlp(**msgspec.structs.asdict(mlp)) if mlp else Moe(**msgspec.structs.asdict(experts))
    return Block(attention=attention, feed_forward=part, **given)


def _wire_block(block: Block, repeats: int = 1) -> WireBlock:
    given, part = asdict(block), block.feed_forward
    kind, name = (WireMoe, "experts") if isinstance(part, Moe) else (WireMlp, "mlp")
    given |= {name: kind(**given.pop("feed_forward")), "repeats": repeats}
    return WireBlock(attention=WireAttention(**given.pop("attention")), **given)


def _wire_model(architecture: Architecture) -> Any:
    further = architecture.prediction
    entries = asdict(replace(architecture, prediction=None))
    del entries["notes"]  # the provenance of the problem has them
    entries["blocks"] = tuple(_wire_block(block, n) for block, n in architecture.runs)
    if further is not None:
        entries["prediction"] = WirePrediction(further.modules, _wire_block(further.block))
    return WireModel(**entries)


def _wire_profile(profile: Profile) -> WireProfile:
    names = WireLayer.__struct_fields__
    layers = (WireLayer(*(getattr(layer, name) for name in names)) for layer in profile.blocks)
    return WireProfile(profile.name, profile.samples, tuple(layers))


def _rates(given: Any) -> Efficiency | None:
    if given is None:
        return None
    content = msgspec.to_builtins(given)
    return efficiency_from(content, next(iter(content["software"])))


def _wire_rates(efficiency: Efficiency, usual: Efficiency) -> Any:
    if efficiency == usual:
        return None
    return msgspec.convert(as_document(efficiency), WireEfficiency)
