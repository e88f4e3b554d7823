"""``capture``: an instance from a PyTorch model of the user's own."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from milp_plan.core import Finding, InputError, Objective

from .inputs import PATH, on_cluster
from .limits import refuse_idle
from .make import write_instance
from .output import note
from .outputs import Content, Output, refuse

if TYPE_CHECKING:
    from milp_plan.capture.work import Coverage
    from milp_plan.core import Cluster
    from milp_plan.core.sharding import ShardingProblem
    from milp_plan.cost.devices import DeviceSpec
    from milp_plan.io.capture_wire import Capture


@click.command()
@click.argument("model")
@click.argument("cluster")
@click.option(
    "--mode",
    type=click.Choice(["training", "inference"]),
    help="A training step (the model's first output is the loss), or one forward pass.  [default:"
    " training; of a captured graph its own; of an ONNX file inference]",
)
@click.option("--onnx", is_flag=True, help="MODEL is an ONNX file, also without the suffix .onnx.")
@click.option(
    "--dimension",
    "dimensions",
    multiple=True,
    metavar="NAME=N",
    help="Size of a dimension that an ONNX file leaves open. Repeatable.",
)
@click.option(
    "--granularity",
    type=click.Choice(["kernel", "module", "block"]),
    default="block",
    show_default=True,
    help="What an operator of the plan is. Total work is the same.",
)
@click.option(
    "--optimizer",
    type=click.Choice(["adamw", "momentum", "sgd"]),
    default="adamw",
    show_default=True,
)
@click.option("--eager", is_flag=True, help="Let each kernel run alone, as without a compiler.")
@click.option(
    "--recompute",
    "policies",
    metavar="POLICY[,POLICY]",
    default="",
    help="Offer blocks to forget activations and compute them again: full, attention (all but"
    " attention's results). With granularity block.",
)
@click.option(
    "--barrier",
    is_flag=True,
    help="Updates wait for the end of the backward pass, as with optimizer.step() behind it.",
)
@click.option(
    "--sharding",
    "shape",
    metavar="SHAPE",
    help="Choose the placement of every tensor on a mesh of all devices, such as 2 or 2x2: write a"
    " sharding problem (IOPDDL), whose plans `export --format torch-placements` makes runnable.",
)
@click.option(
    "--mesh",
    "meshes",
    multiple=True,
    metavar="SHAPE",
    help="Choose strategies, devices and times together: each kernel runs on one device, or cut"
    " over a group of devices that forms such a mesh, as 2 or 2x2. Repeatable.",
)
@click.option(
    "--stages",
    is_flag=True,
    help="The problem of cutting the model into consecutive stages, one for each device of the"
    " cluster, whose slowest is as fast as can be. What build() returns is one micro-batch.",
)
@click.option("--dtype", help="Type of numbers to build the model in, such as bfloat16.")
@click.option(
    "--device",
    help="Device of PyTorch whose kernels are captured, such as cuda; it must be there.  [default:"
    " cpu]",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Build the model with weights, run its kernels one by one on the device, keep their times"
    " in the captured graph (--graph), and say how the roofline describes them.",
)
@click.option(
    "--cost",
    type=click.Choice(["roofline", "profile"]),
    default="roofline",
    show_default=True,
    help="Where durations come from: rates of the cluster's device class, or the times that"
    " --profile measured, kernels running one by one.",
)
@click.option(
    "--flops",
    "formulas",
    multiple=True,
    metavar="OPERATOR=NUMBER",
    help="Operations per element of an operator's results, where none are known. Repeatable.",
)
@on_cluster
@click.option("--name", help="Name of the instance; made from the model's unless given.")
@click.option("--graph", type=PATH, help="Write the captured graph as well (.gz: compressed).")
@click.option(
    "--placements",
    type=PATH,
    help="Write a torch-placements file as well, to edit: every tensor whole on as many processes"
    " as the cluster has devices.",
)
@click.option(
    "-o", "--output", type=PATH, help="File to write (.gz: compressed); NAME.json unless given."
)
def capture(
    *,
    model: str,
    cluster: str,
    mode: str | None,
    onnx: bool,
    dimensions: tuple[str, ...],
    granularity: str,
    optimizer: str,
    eager: bool,
    policies: str,
    barrier: bool,
    shape: str | None,
    meshes: tuple[str, ...],
    stages: bool,
    dtype: str | None,
    device: str | None,
    profile: bool,
    cost: str,
    formulas: tuple[str, ...],
    memory_scale: Fraction,
    communication: str | None,
    link: str | None,
    objective: str,
    name: str | None,
    graph: Path | None,
    placements: Path | None,
    output: Path | None,
) -> None:
    """Build an instance from a PyTorch MODEL and a CLUSTER such as 4xH100 or mine.toml.

    MODEL is my_model.py:build, a function without arguments that returns (module, args); or a
    captured graph that was written by --graph, or an ONNX file (.onnx, forward pass only), for
    which PyTorch is not needed. The model is never run and its weights are never made.
    """
    from milp_plan import capture as package
    from milp_plan.capture.placements import whole_placements, write_placements
    from milp_plan.cost.clusters import arranged
    from milp_plan.io.cluster_file import cluster_of

    _require_compatible(shape, meshes, cost)
    asked = [
        Output("--graph", graph, Content.OTHER),
        Output("--placements", placements, Content.OTHER),
        Output("--output", output, Content.INSTANCE),
    ]
    refuse(asked)
    machines = arranged(cluster_of(cluster), communication, link)
    sizes = dict(_sized(text) for text in dimensions)
    if onnx or model.endswith(package.ONNX_SUFFIX):
        found = _from_onnx(model, mode, sizes)
    elif ".py" in Path(model).name:
        found = _from_module(model, mode, sizes, dtype, device, profile=profile)
    else:
        found = _recorded(model, mode, sizes)
    _refuse_updates(found)
    found = package.with_formulas(found, dict(_formula(text) for text in formulas))
    _tell(found, package.coverage(found), granularity)
    if found.profile is not None:
        _tell_profile(found)
    if graph is not None:
        package.write_capture(found, graph)
    if placements is not None:
        write_placements(whole_placements(found, len(machines.device_names)), placements)
    try:
        package.require_known(found)
    except InputError as error:
        raise error.in_file(model) from None
    if shape is not None:
        placed = _placed(found, machines, shape, memory_scale, optimizer=optimizer, name=name)
        write_instance(placed, output)
        return
    build: dict[str, Any] = {
        "granularity": granularity,
        "optimizer": optimizer,
        "fuse": not eager,
        "name": name,
    }
    if meshes:
        problem = package.meshed(
            *(found, machines, meshes),
            optimizer=optimizer,
            objective=Objective(objective),
            name=name,
        )
    elif stages:
        problem = package.stage_problem(found, machines, **build)
    else:
        chosen = [policy for policy in policies.split(",") if policy]
        problem = package.instance(
            found,
            machines,
            recompute=chosen,
            barrier=barrier,
            objective=Objective(objective),
            measured=_measured(found, machines, cost),
            **build,
        )
    if memory_scale != 1:
        problem = problem.with_memory_scale(memory_scale.numerator, memory_scale.denominator)
    write_instance(problem, output)


def _given(*names: str) -> list[str]:
    """Those options, of some, that stand on the command line."""
    here = click.get_current_context()
    sources = {name: here.get_parameter_source(name) for name in names}
    options = {one.name: one.opts[0] for one in here.command.params}
    return [options[name] for name in names if sources[name] is ParameterSource.COMMANDLINE]


def _require_compatible(shape: str | None, meshes: tuple[str, ...], cost: str) -> None:
    """See that options go together; strategies are those of kernels, timed by the roofline."""
    if shape is not None:
        others = ("eager", "granularity", "stages", "objective", "meshes")
        _refuse_beside("--sharding", cost, *others)
        refuse_idle({"communication": "a sharding problem has no transfers; leave it out"})
    elif meshes:
        _refuse_beside("--mesh", cost, "eager", "granularity", "stages")
    elif _given("stages"):
        _refuse_beside("--stages", cost, "objective")


def _refuse_beside(option: str, cost: str, *more: str) -> None:
    """Refuse options that another one makes meaningless."""
    given = _given("policies", "barrier", *more)
    if given := [*given, *(["--cost profile"] if cost == "profile" else [])]:
        raise click.UsageError(f"{option} does not go with {', '.join(given)}")


def _placed(
    graph: Capture,
    machines: Cluster,
    shape: str,
    memory_scale: Fraction,
    *,
    optimizer: str,
    name: str | None,
) -> ShardingProblem:
    """Placements on a mesh, within the part of a device's memory that was asked for."""
    from milp_plan import capture as package
    from milp_plan.zoo import mesh_on

    grid = mesh_on(machines, shape)
    limit = int(grid.device.memory_bytes * memory_scale)
    return package.sharding(graph, grid, optimizer=optimizer, limit=limit, name=name)


def _refuse_updates(graph: Capture) -> None:
    """Options on how weights are updated, where none is."""
    if graph.mode == "inference":
        why = "inference updates no weights; leave it out"
        refuse_idle({"optimizer": why, "barrier": why})


def _refuse_without_model(what: str) -> None:
    """Options that say how to build a model, or to run it."""
    if given := _given("dtype", "device", "profile"):
        text = f"{' and '.join(given)} {'need' if len(given) > 1 else 'needs'} a model to build"
        raise click.UsageError(f"{text}: name its file (my_model.py:build) instead of {what}")


def _from_onnx(model: str, mode: str | None, sizes: dict[str, int]) -> Capture:
    """Read an ONNX file; refuse what needs a model that runs."""
    from milp_plan import capture as package

    _refuse_without_model("an ONNX file")
    if mode == "training":
        asked = "--mode training needs a PyTorch model"
        raise click.UsageError(f"{asked}: an ONNX file is a forward pass")
    return package.capture_onnx(model, sizes)


def _from_module(
    model: str,
    mode: str | None,
    sizes: dict[str, int],
    dtype: str | None,
    device: str | None,
    *,
    profile: bool,
) -> Capture:
    """Capture a model of the user's own."""
    from milp_plan import capture as package

    _refuse_sizes(sizes)
    builder = package.load_builder(model)
    return package.capture_model(
        builder,
        mode=mode or "training",
        dtype=dtype,
        device=device or "cpu",
        profile=profile,
        report=lambda text: note(f"{builder.stem}: {text}"),
    )


def _recorded(model: str, mode: str | None, sizes: dict[str, int]) -> Capture:
    """Read a captured graph; refuse options that belong to capturing it."""
    from milp_plan import capture as package

    _refuse_sizes(sizes)
    _refuse_without_model("a captured graph")
    found = package.read_capture(model)
    if mode not in (None, found.mode):
        remedy = f"ask for --mode {found.mode}, or capture the model again"
        raise InputError([Finding("mode", repr(found.mode), repr(mode), remedy, model)])
    return found


def _refuse_sizes(sizes: dict[str, int]) -> None:
    if sizes:
        raise click.UsageError("--dimension goes with an ONNX file")


def _measured(graph: Capture, machines: Cluster, cost: str) -> DeviceSpec | None:
    """Rates of what a profile does not time; ``None`` where the roofline gives all durations."""
    from milp_plan import capture as package

    if cost == "roofline":
        return None
    package.require_times(graph, machines)
    return package.calibrate(graph).spec


def _formula(text: str) -> tuple[str, int]:
    operator, equals, number = text.partition("=")
    if not equals or not operator or not number.isdecimal():
        raise click.BadParameter(f"{text!r}: write OPERATOR=NUMBER", param_hint="'--flops'")
    return operator.replace("::", "."), int(number)


def _sized(text: str) -> tuple[str, int]:
    name, equals, number = text.rpartition("=")
    if not equals or not name or not number.isdecimal():
        raise click.BadParameter(f"{text!r}: write NAME=N", param_hint="'--dimension'")
    return name, int(number)


def _tell_profile(graph: Capture) -> None:
    """Say what rates the device reached, and how far the roofline is off with them."""
    from milp_plan.capture.calibration import calibrate

    assert graph.profile is not None
    found = calibrate(graph)
    spec, profile = found.spec, graph.profile
    note(
        f"{graph.name}: {len(profile.kernels):,} kernels timed on {profile.device}, "
        f"{profile.threads} threads: {spec.peak_flops_per_s / 1e9:,.1f} GFLOP/s, "
        f"{spec.memory_bytes_per_s / 1e9:,.2f} GB/s, {spec.launch_ns / 1e3:,.1f} us at least"
    )
    for kind, entry in found.classes.items():
        note(
            f"{graph.name}: {kind}: {entry.kernels} kernels, measured "
            f"{entry.measured_ns / 1e6:,.3f} ms, roofline at these rates "
            f"{entry.roofline_ns / 1e6:,.3f} ms, median error {entry.error:.0%}"
        )


def _tell(graph: Capture, found: Coverage, granularity: str) -> None:
    """Print what was captured, which kernels have no module, and what is not counted."""
    from milp_plan.capture.passes import without_module

    forward, backward = found.flops["forward"], found.flops["backward"]
    passes = f"{forward / 1e9:,.3f} GFLOP forward"
    passes += f", {backward / 1e9:,.3f} backward" if graph.mode == "training" else ""
    note(f"{graph.name}: {found.kernels:,} kernels of {graph.nodes:,} nodes; {passes}")
    alone = without_module(graph)
    if alone and granularity != "kernel":
        note(
            f"{graph.name}: {len(alone):,} kernels without a module: each is an operator"
            f" (chains of elementwise ones are fused), instead of each {granularity}"
        )
    beside = found.pathless - sum(graph.kernels[place].module is None for place in alone)
    if beside:
        note(f"{graph.name}: {beside} kernels without a module, placed with a neighbour")
    moved = sum(size for _, size in found.uncounted.values())
    most = sorted(found.uncounted.items(), key=lambda entry: -entry[1][1])[:3]
    names = ", ".join(name for name, _ in most)
    note(
        f"{graph.name}: kinds of operators without counted FLOPs: {len(found.uncounted)}, timed by"
        f" the {moved / 1e9:,.2f} GB that they move ({names} most)"
    )
