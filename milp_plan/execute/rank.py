"""One process of a pipeline: ``python -m milp_plan.execute.rank FOLDER PLACE``.

Started by :mod:`.pipelines`, which writes the task into the folder. It builds the model with the
weights that every run has, splits it, and runs its stages in the order of its row of the schedule.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from milp_plan.capture.inputs import built_with_seed, path_of
from milp_plan.capture.model_file import load_builder
from milp_plan.capture.stages import read_stages

from .cut import Cut, inputs_of
from .step import allocated_peak, arguments, micro_batch
from .worker import leave, report_errors, together


def run(folder: Path, place: int) -> None:
    """Run the stages of process ``place``, and save losses, gradients and the peak of memory.

    Raises
    ------
    MilpPlanError
        The stages are not of this model.
    """
    import torch

    task = json.loads((folder / "task.json").read_text())
    torch.set_num_threads(1)
    builder = load_builder(task["model"])
    built = built_with_seed(builder, task["dtype"])
    exported = _exported(built)
    cut = Cut(exported, [stage.modules for stage in read_stages(folder / "stages.json").stages])
    modules = {number: cut.module(number) for number in task["own"][place]}
    names = inputs_of(exported)
    batches = [
        dict(zip(names, micro_batch(builder, number, task["dtype"]), strict=True))
        for number in range(task["micro_batches"])
    ]
    del exported, cut, built
    with together(folder, place, len(task["own"])):
        result = _step(folder, modules, batches, task["stages"])
        torch.save(result, folder / f"{place}.result")


def _exported(built: Any) -> Any:
    """Return the forward pass as a graph; the loss is its output."""
    import torch

    from milp_plan.capture.trace import wrapper

    module, args = built
    args, kwargs = arguments(args)
    return torch.export.export(
        wrapper(module, True, alone=True), args, kwargs, strict=False
    ).module()


def _step(
    folder: Path, modules: dict[int, Any], batches: Sequence[dict[str, Any]], count: int
) -> dict[str, Any]:
    """Run the step twice, and measure the second: in the first, stages agree on shapes."""
    import torch
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    device = torch.device("cpu")
    stages = [PipelineStage(module, n, count, device) for n, module in modules.items()]
    runtime = _PipelineScheduleRuntime(stages, len(batches), loss_fn=lambda output, _target: output)
    runtime._load_csv(str(folder / "schedule.csv"), format="compute_only")
    inputs = {
        number: {node.name for node in module.graph.nodes if node.op == "placeholder"}
        for number, module in modules.items()
    }
    names = set().union(*inputs.values())
    for stage in stages:
        stage.has_backward = True
        _take_only(stage, inputs[stage.stage_index])
    passed = [{name: item for name, item in batch.items() if name in names} for batch in batches]
    losses: list[Any] = []

    def step() -> None:
        losses.clear()
        for module in modules.values():
            module.zero_grad(set_to_none=True)
        runtime._step_microbatches(
            kwarg_mbs=[dict(batch) for batch in passed],
            target_mbs=[torch.zeros(1)] * len(batches) if count - 1 in modules else None,
            losses=losses if count - 1 in modules else None,
            return_outputs=False,
        )

    step()
    peak = allocated_peak(step)
    gradients: dict[str, Any] = {}
    for module in modules.values():
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                gradient = parameter.grad.double()
                known = gradients.get(path_of(name))
                gradients[path_of(name)] = gradient if known is None else known + gradient
    return {
        "losses": [float(loss.detach()) for loss in losses],
        "gradients": gradients,
        "peak": peak,
    }


def _take_only(stage: Any, names: set[str]) -> None:
    """Pass a stage only the inputs of the model that it reads; PyTorch passes all of a rank."""
    forward = stage.submod.forward

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **{name: item for name, item in kwargs.items() if name in names})

    stage.submod.forward = chosen


if __name__ == "__main__":
    leave(report_errors(run, Path(sys.argv[1]), int(sys.argv[2])))
