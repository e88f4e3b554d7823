"""Measures times of a captured graph's kernels on a device, running the graph node by node.

A kernel is run on the tensors of the step itself; its time is the median of some repetitions. On an
accelerator each repetition is a series of calls between two events, so that launches by the host
are hidden as far as they are in a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from statistics import median
from typing import Any

import msgspec

from milp_plan.core import InputError
from milp_plan.io.capture_wire import Capture, Kernel, Profile

from .failures import not_run
from .inputs import built_with_seed, graph_inputs
from .model_file import Builder

REPEATS = 3
TRAIN = 10
"""Number of calls between two events of an accelerator."""

SECOND = ":weights"
"""Suffix of the name of the second kernel of a node."""


def profiled(
    capture: Capture,
    graph: Any,
    builder: Builder,
    *,
    dtype: str | None = None,
    device: str = "cpu",
    report: Callable[[str], None] = lambda _text: None,
) -> Capture:
    """Return a captured graph with the times of its kernels.

    Parameters
    ----------
    capture
        The graph as recorded.
    graph
        The same graph as PyTorch's graph of nodes.
    builder, dtype
        Function that builds the model once more, with weights, and type of numbers.
    device
        Device of the kernels.
    report
        Called with progress.

    Raises
    ------
    InputError
        The device cannot run a kernel; the error names module and operator.
    """
    import torch

    report(f"building the model with weights, to run its kernels on {device}")
    module, args = built_with_seed(builder, dtype)
    module = module.to(device) if capture.mode == "training" else module.to(device).eval()
    inputs = {
        name: tensor.detach().to(device)
        for name, (_, tensor) in graph_inputs(graph, (module, args)).items()
    }
    clock = _train if torch.device(device).type == "cuda" else _calls

    def failure(where: str, error: Exception, operator: str) -> InputError:
        return not_run(builder.text, where, error, operator=operator, dtype=dtype)

    times = _Times({kernel.name: kernel for kernel in capture.kernels}, clock, report, failure)
    times.run(graph, inputs, device)
    name = torch.cuda.get_device_name() if torch.device(device).type == "cuda" else _processor()
    profile = Profile(
        device=name,
        threads=torch.get_num_threads(),
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        torch=str(torch.__version__),
        kernels=times.found,
    )
    return msgspec.structs.replace(capture, profile=profile)


class _Times:
    """Runs a graph, and times the nodes that are kernels."""

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        clock: Callable[[Callable[[], Any]], int],
        report: Callable[[str], None],
        failure: Callable[[str, Exception, str], InputError],
    ) -> None:
        self.kernels = kernels
        self.clock = clock
        self.report = report
        self.failure = failure
        self.found: dict[str, int] = {}

    def run(self, graph: Any, inputs: dict[str, Any], device: str) -> None:
        """Run every node once for its result, and kernels again for their times."""
        import torch

        last = {read: node for node in graph.nodes for read in node.all_input_nodes}
        values: dict[Any, Any] = {}
        with torch.no_grad():
            for node in graph.nodes:
                if node.op == "placeholder":
                    values[node] = inputs[node.name]
                elif node.op == "get_attr":
                    value = getattr(graph.owning_module, node.target)
                    values[node] = value.to(device) if isinstance(value, torch.Tensor) else value
                elif node.op == "call_function":
                    values[node] = self._call(node, values)
                for read in node.all_input_nodes:
                    if last[read] is node:
                        del values[read]

    def _call(self, node: Any, values: dict[Any, Any]) -> Any:
        import torch

        args = torch.fx.map_arg(node.args, values.__getitem__)
        kwargs = torch.fx.map_arg(node.kwargs, values.__getitem__)
        try:
            result = node.target(*args, **kwargs)
        except Exception as error:
            kernel = self.kernels.get(node.name)
            module = f"module {kernel.module!r}" if kernel and kernel.module else "the model itself"
            raise self.failure(module, error, f"{node.target} ({node.name})") from error
        if node.name in self.kernels:
            second = f"{node.name}{SECOND}"
            if second in self.kernels:
                mask = args[10]
                for name, part in (
                    (node.name, [True, False, False]),
                    (second, [False, *mask[1:]]),
                ):
                    self._time(name, node.target, (*args[:10], part, *args[11:]), kwargs)
            else:
                self._time(node.name, node.target, args, kwargs)
        return result

    def _time(self, name: str, target: Any, args: Any, kwargs: Any) -> None:
        each = [self.clock(lambda: target(*args, **kwargs)) for _ in range(REPEATS)]
        self.found[name] = round(median(each))
        if len(self.found) % 100 == 0:
            self.report(f"{len(self.found)} of {len(self.kernels)} kernels timed")


def _calls(call: Callable[[], Any]) -> int:
    """Return the nanoseconds of a call on the host."""
    began = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - began


def _train(call: Callable[[], Any]) -> int:
    """Return the nanoseconds of a call in a series on an accelerator."""
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(TRAIN):
        call()
    stop.record()
    torch.cuda.synchronize()
    elapsed_ms: float = start.elapsed_time(stop)
    return round(elapsed_ms * 1e6 / TRAIN)


def _processor() -> str:
    """Return the machine's name of its processor."""
    import platform
    from pathlib import Path

    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
