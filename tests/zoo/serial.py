"""Plans that run one task at a time: slow, but simple enough to be trusted as a witness."""

from __future__ import annotations

from milp_plan.core import OperatorRun, Placement, Plan, PlanningProblem, Transfer
from milp_plan.cost.routes import routes


def layer_of(operator: str) -> str:
    """``h0.qkv.F@3`` belongs to ``h0.qkv``."""
    return operator.split("@", maxsplit=1)[0].rsplit(".", 1)[0]


def on_one_device(problem: PlanningProblem) -> dict[str, str]:
    """Every layer on the first device."""
    first = problem.cluster.device_names[0]
    return {layer_of(operator.name): first for operator in problem.graph.operators}


def in_stages(problem: PlanningProblem) -> dict[str, str]:
    """Layers in order, cut so that each device holds about as much as every other."""
    training = any(op.kind == "update" for op in problem.graph.operators)
    layers = list(dict.fromkeys(layer_of(op.name) for op in problem.graph.operators))
    held = dict.fromkeys(layers, 0)
    for value in problem.graph.values:
        owner = value.consumers[0] if value.producer is None else value.producer
        kept = value.producer is None or any(c.split("@")[0][-1] in "BW" for c in value.consumers)
        held[layer_of(owner)] += value.bytes["full"] if kept or not training else 0
    devices = problem.cluster.device_names
    share = sum(held.values()) / len(devices)
    placed, before = {}, 0.0
    for layer in layers:
        stage = min(int((before + held[layer] / 2) / share), len(devices) - 1)
        placed[layer] = devices[stage]
        before += held[layer]
    return placed


def serial_plan(problem: PlanningProblem, placed: dict[str, str]) -> Plan:
    """Run micro-batch after micro-batch, each transfer right before its reader, then updates."""
    graph = problem.graph
    order = sorted(
        graph.operators,
        key=lambda op: len(graph.operators) if op.micro_batch is None else op.micro_batch,
    )
    placements = {
        op.name: Placement("single", (placed[layer_of(op.name)],)) for op in graph.operators
    }
    runs, transfers, made, clock = [], [], set(), 0
    for operator in order:
        for value in graph.inputs[operator.name]:
            if value.producer is None:
                continue
            found = routes(
                problem,
                value,
                placements[value.producer],
                operator.name,
                placements[operator.name],
            )
            assert found is not None
            for route in found:
                if route.key not in made:
                    made.add(route.key)
                    stop = clock + route.duration_ticks
                    transfers.append(
                        Transfer(value.name, route.source, route.target, route.layout, clock, stop)
                    )
                    clock = stop
        placement = placements[operator.name]
        stop = clock + problem.duration_ticks(operator.name, placement)
        runs.append(OperatorRun(operator.name, *placement, clock, stop))
        clock = stop
    return Plan(problem.name, tuple(runs), tuple(transfers))
