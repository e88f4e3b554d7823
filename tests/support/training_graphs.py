"""Random training steps: layers with forward, backward and weight gradient, side branches."""

from __future__ import annotations

from random import Random

from milp_plan.core import (
    TICKS_PER_SECOND,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Operator,
    Option,
    PlanningProblem,
    Value,
)


def random_training(
    seed: int, layers: int, *, batches: int = 1, branches: int = 0, most_devices: int = 3
) -> PlanningProblem:
    """Training step of some layers in a row, each a colocation group, on two classes of devices.

    Parameters
    ----------
    seed
        Of everything that is drawn.
    layers
        Layers in a row.
    batches
        Micro-batches; those of an operator share a group.
    branches
        Layers beside the row, each from one layer to a later one.
    most_devices
        At least 2.
    """
    rng = Random(seed)
    draw = _Draw(rng, layers, branches)
    operators, values = draw.graph()
    graph = ComputationGraph(tuple(operators), tuple(values))
    if batches > 1:
        graph = graph.unroll(batches)
    return PlanningProblem(f"training-{seed}", graph, _cluster(rng, most_devices))


class _Draw:
    def __init__(self, rng: Random, layers: int, branches: int) -> None:
        self.rng = rng
        self.size = 10 ** rng.choice([1, 3, 6, 9])
        self.wire = rng.choice([0, 1, 3, 10, 20, 100])
        self.with_weights = rng.random() < 0.7
        self.tied = rng.random() < 0.8
        self.edges = [(k, k + 1) for k in range(layers - 1)]
        count = layers
        for _ in range(branches):
            a = rng.randrange(layers - 1)
            c = rng.randrange(a + 1, layers)
            self.edges += [(a, count), (count, c)]
            count += 1
        self.names = [f"l{k}" for k in range(count)]
        self.grouped = [k < layers or rng.random() < 0.6 for k in range(count)]

    def ticks(self) -> dict[str, int]:
        fast = 0 if self.rng.random() < 0.05 else self.rng.randint(1, self.size)
        return {"fast": fast, "slow": fast * self.rng.choice([1, 2, 3])}

    def bytes(self) -> int:
        return self.rng.randint(0, self.wire * self.size // 10)

    def graph(self) -> tuple[list[Operator], list[Value]]:
        operators, values = [], []
        for k, name in enumerate(self.names):
            group = name if self.grouped[k] else None
            kinds = "FBW" if self.with_weights and self.rng.random() < 0.8 else "FB"
            for kind in kinds:
                option = Option("only", self.ticks())
                operators.append(Operator(f"{name}.{kind}", (option,), group=group))
        there = {operator.name for operator in operators}
        for k, name in enumerate(self.names):
            after = [self.names[c] for a, c in self.edges if a == k]
            before = [self.names[a] for a, c in self.edges if c == k]
            own = [f"{name}.B"] if not after or self.tied else []
            readers = [f"{x}.F" for x in after] + [f"{x}.W" for x in after if f"{x}.W" in there]
            values.append(self.value(f"{name}.out", f"{name}.F", [*own, *readers]))
            if before:
                weights = [f"{x}.W" for x in before if f"{x}.W" in there]
                read = [f"{x}.B" for x in before] + weights
                values.append(self.value(f"{name}.grad", f"{name}.B", read))
        return operators, values

    def value(self, name: str, producer: str, readers: list[str]) -> Value:
        return Value(name, producer, tuple(readers), {"full": self.bytes()})


def _cluster(rng: Random, most: int) -> Cluster:
    names = [f"d{i}" for i in range(rng.randint(2, most))]
    kinds = ["fast", *(rng.choice(["fast", "fast", "slow"]) for _ in names[1:])]
    bandwidth = TICKS_PER_SECOND // rng.choice([1, 3])
    return Cluster(
        tuple(DeviceClass(kind, None) for kind in ("fast", "slow")),
        tuple(Device(n, k, None) for n, k in zip(names, kinds, strict=True)),
        tuple(Channel(a, b, rng.choice([0, 5]), bandwidth) for a in names for b in names if a != b),
        (),
        rng.choice(list(CommunicationModel)),
    )
