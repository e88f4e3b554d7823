"""Splits an exported forward pass into the stages of a pipeline.

PyTorch's own tracer splits between modules only at the first module of a stage, and its
runtime passes nothing beyond the next stage. Here a stage is a set of modules: nodes between them
run where their latest input comes from, nodes without a gradient (masks, positions, tables) are
computed wherever they are read, and a value that skips stages is passed on by those between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from milp_plan.capture.inputs import path_of
from milp_plan.core import Finding, InputError


class Cut:
    """A graph whose nodes have stages.

    Parameters
    ----------
    exported
        ``torch.export.export(...).module()`` of the wrapped model, whose output is the loss.
    stages
        Modules of each stage, in order.

    Raises
    ------
    InputError
        The model does not have a module, or one reads the output of a later stage.
    """

    def __init__(self, exported: Any, stages: Sequence[Sequence[str]]) -> None:
        self.exported = exported
        self.count = len(stages)
        self.stage_of_module = {path: n for n, paths in enumerate(stages) for path in paths}
        self.nodes = [node for node in exported.graph.nodes if node.op != "call_module"]
        self._check_modules(stages)
        self.grown = self._with_gradient()
        self.stage_of = self._stages()
        self.live = [self._live(number) for number in range(self.count + 1)]

    def _check_modules(self, stages: Sequence[Sequence[str]]) -> None:
        known = {path for node in self.nodes for path in _above(_module_of(node))}
        findings = [
            Finding(
                f"stages[{number}], module {path!r}",
                "nothing that runs",
                "a module of the model",
                "make the file again from this model",
            )
            for number, paths in enumerate(stages)
            for path in paths
            if path not in known
        ]
        if findings:
            raise InputError(findings)

    def _with_gradient(self) -> set[Any]:
        """Return the nodes on a path from a trained parameter."""
        grown: set[Any] = set()
        for node in self.nodes:
            if node.op == "get_attr":
                if getattr(_attribute(self.exported, node.target), "requires_grad", False):
                    grown.add(node)
            elif grown.intersection(node.all_input_nodes):
                grown.add(node)
        return grown

    def _stages(self) -> dict[Any, int]:
        """Return node on such a path, apart from parameters -> its stage."""
        stage_of: dict[Any, int] = {}
        for node in self.nodes:
            if node.op != "call_function" or node not in self.grown:
                continue
            before = max(
                (stage_of[read] for read in node.all_input_nodes if read in stage_of), default=0
            )
            stage = self._listed_stage(node)
            if stage is not None and stage < before:
                where = f"module {_module_of(node)!r}, node {node.name!r}"
                found_, expected = f"stage {stage}", f"stage {before} or later, which it reads from"
                raise InputError([Finding(where, found_, expected, "move the module")])
            stage_of[node] = before if stage is None else stage
        return stage_of

    def _listed_stage(self, node: Any) -> int | None:
        """Return the stage of the innermost listed module that contains a node."""
        for path in reversed(_above(_module_of(node))):
            if path in self.stage_of_module:
                return self.stage_of_module[path]
        return None

    def _live(self, number: int) -> list[Any]:
        """Return the values that a stage receives: made before it, read there or later."""
        return [
            node
            for node, stage in self.stage_of.items()
            if stage < number and any(self.stage_of.get(r, -1) >= number for r in node.users)
        ]

    def module(self, number: int) -> Any:
        """Return one stage as a module; it takes live values by position and inputs by name.

        Its parameters are copies, so that tied ones of two stages have a gradient each.
        """
        import torch

        graph = torch.fx.Graph()
        copies: dict[Any, Any] = {}
        for node in self.live[number]:
            copies[node] = graph.placeholder(node.name)
        own = [node for node, stage in self.stage_of.items() if stage == number]
        needed = self._needed(own)
        for node in self.nodes:
            if node.op == "placeholder" and node in needed:
                copies[node] = graph.placeholder(node.name)
        for node in self.nodes:
            if node.op in ("get_attr", "call_function") and node in needed and node not in copies:
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(self._outputs(graph, number, copies))
        made = torch.fx.GraphModule(self.exported, graph)
        for module in made.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter is not None:
                    copy = torch.nn.Parameter(
                        parameter.detach().clone(), requires_grad=parameter.requires_grad
                    )
                    module._parameters[name] = copy
        return made

    def _needed(self, own: Sequence[Any]) -> set[Any]:
        """Return the nodes of a stage, and the nodes without a stage that they read."""
        needed = set(own)
        todo = list(own)
        while todo:
            for read in todo.pop().all_input_nodes:
                if read not in needed and read not in self.stage_of:
                    needed.add(read)
                    todo.append(read)
        return needed

    def _outputs(self, graph: Any, number: int, copies: Mapping[Any, Any]) -> Any:
        if number == self.count - 1:
            (output,) = (node for node in self.nodes if node.op == "output")
            leaves = [copies[node] for node in output.all_input_nodes]
            return leaves[0]
        import torch

        # PyTorch detaches a stage's outputs in place: nothing else may still need them.
        clone = torch.ops.aten.clone.default
        return tuple(graph.call_function(clone, (copies[node],)) for node in self.live[number + 1])


def inputs_of(exported: Any) -> list[str]:
    """Return names of the inputs of an exported module, in the order of its arguments' leaves."""
    return [node.name for node in exported.graph.nodes if node.op == "placeholder"]


def _attribute(module: Any, target: str) -> Any:
    for step in target.split("."):
        module = getattr(module, step)
    return module


def _module_of(node: Any) -> str:
    stack = node.meta.get("nn_module_stack")
    return path_of(list(stack.values())[-1][0]) if stack else ""


def _above(path: str) -> list[str]:
    """Return a module's path and those that contain it, outermost first."""
    steps = path.split(".") if path else []
    return [".".join(steps[: count + 1]) for count in range(len(steps))]
