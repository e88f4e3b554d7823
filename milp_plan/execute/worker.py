"""One process of a step on several: ``python -m milp_plan.execute.worker FOLDER PLACE``.

Started by :mod:`.processes`, which writes the task into the folder. It captures the model, builds
it with the weights that every run has, runs each plan, and gathers results on the first process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from milp_plan.capture.inputs import built_with_seed, graph_inputs
from milp_plan.capture.model_file import load_builder
from milp_plan.capture.placements import processes, read_placements
from milp_plan.core import MilpPlanError
from milp_plan.io.placement_wire import TorchPlacements

from .dtensors import Distributed, is_other, parameter_of
from .processes import DONE

FAILED = 3
"""Exit status of a process that has written an error into the folder."""

CRASHED = 1
"""Exit status of a process that ends with a traceback."""


def run(folder: Path, place: int) -> None:
    """Run all plans of a folder as process ``place``.

    Raises
    ------
    MilpPlanError
        A plan cannot be run; the error names the node.
    """
    import torch

    from milp_plan.capture.trace import build, trace

    task = json.loads((folder / "task.json").read_text())
    plans = [read_placements(folder / name) for name in task["plans"]]
    torch.set_num_threads(1)
    builder = load_builder(task["model"])
    built = build(builder, task["dtype"], _silent)
    with trace(builder.text, built, "training", _silent) as joint:
        graph = joint.graph
    tensors = graph_inputs(graph, built_with_seed(builder, task["dtype"]))
    with together(folder, place, processes(plans[0])):
        for name, plan in zip(task["plans"], plans, strict=True):
            result = _result(plan, graph, tensors, task["aliases"])
            if place == 0:
                torch.save(result, folder / f"{name}.result")


def _result(
    plan: TorchPlacements,
    graph: Any,
    tensors: Mapping[str, tuple[str | None, Any]],
    aliases: Mapping[str, str],
) -> dict[str, Any]:
    """Run one plan; loss and gradients are gathered after the collectives are counted."""
    from torch.distributed import init_device_mesh

    mesh = init_device_mesh(
        "cpu",
        tuple(axis.size for axis in plan.mesh),
        mesh_dim_names=tuple(axis.name for axis in plan.mesh),
    )
    runner = Distributed(plan, mesh, aliases)
    inputs = {}
    for node, (name, tensor) in tensors.items():
        placement = None if name is None else plan.inputs.get(aliases.get(name, name))
        inputs[node] = (
            runner.whole(tensor)
            if placement is None
            else runner.shared(tensor, placement, f"inputs[{name!r}]")
        )
    results, counts = runner.step(graph, inputs)
    (output,) = (node for node in graph.nodes if node.op == "output")
    descriptions = output.meta["desc"]
    gradients = {}
    for value, description in zip(results, descriptions, strict=True):
        parameter = parameter_of(description)
        if parameter and value is not None:
            gradients[aliases.get(parameter, parameter)] = value.full_tensor().double()
    pairs = zip(results, descriptions, strict=True)
    loss = next(value for value, description in pairs if not is_other(description))
    return {
        "loss": float(loss.full_tensor()),
        "gradients": gradients,
        "collectives": counts,
    }


def _silent(_text: str) -> None:
    """Ignore a report: the process that started this one reports."""


@contextmanager
def together(folder: Path, place: int, count: int) -> Iterator[None]:
    """Join the processes of a task; report the end when all have written their answers.

    After an error the group is not destroyed: that may abort before the error is written.
    """
    import torch.distributed as dist

    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=place, world_size=count)
    yield
    dist.barrier()
    (folder / f"{DONE}{place}").touch()
    dist.destroy_process_group()


def leave(status: int) -> NoReturn:
    """End the process without running the rest of it.

    Threads of the process group may still run, and would abort an orderly end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def report_errors(task: Callable[[Path, int], None], folder: Path, place: int) -> int:
    """Run a task, and write its error into the folder."""
    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)
    try:
        task(folder, place)
    except MilpPlanError as error:
        (folder / f"error-{place}").write_text(str(error))
        return FAILED
    except Exception:
        traceback.print_exc()
        return CRASHED
    return 0


if __name__ == "__main__":
    leave(report_errors(run, Path(sys.argv[1]), int(sys.argv[2])))
