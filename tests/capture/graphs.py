"""Captured graphs for tests: those that are shipped, and small ones by hand."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

from milp_plan.capture.record import read_capture
from milp_plan.io.capture_wire import Capture, Kernel, Result, Storage, Tensor

FOLDER = Path(__file__).parents[2] / "instances" / "captures"
NAMES = sorted(path.name.removesuffix(".capture.json.gz") for path in FOLDER.glob("*.gz"))


@cache
def shipped(name: str) -> Capture:
    return read_capture(FOLDER / f"{name}.capture.json.gz")


def kernel(operator: str, *arguments, result=(1,), name: str = "k", **members) -> Kernel:
    """A kernel whose tensor arguments are given by their shapes."""
    made = tuple(
        Tensor(0, entry, "float32") if isinstance(entry, tuple) else entry for entry in arguments
    )
    return Kernel(
        name, operator, "forward", "", made, results=(Tensor(0, result, "float32"),), **members
    )


def random_capture(rng: random.Random, kernels: int) -> Capture:
    """A training graph of random kernels with sizes like real ones, in any order of modules."""
    storages = [Storage(f"m.{i}.weight", 4 * 10**6, "parameter", "float32") for i in range(3)]
    storages.append(Storage("x", 4 * 10**6, "input", "float32"))
    made = []
    for place in range(kernels):
        phase = "forward" if place < kernels // 2 else "backward"
        count = rng.randint(1, 3)
        read = tuple(
            Tensor(rng.randrange(len(storages)), (10**6,), "float32") for _ in range(count)
        )
        results = []
        for step in range(rng.randint(1, 2)):
            elements = rng.choice([1, 10**3, 10**6, 10**8])
            results.append(Tensor(len(storages), (elements,), "float32"))
            storages.append(Storage(f"r{place}.{step}", 4 * elements, "result", "float32"))
        operator = rng.choice(["aten.add.Tensor", "aten.sum.default", "aten.embedding.default"])
        module = rng.choice([None, "", "m.0", "m.1.a", "m.1.b", "m.2", "top"])
        made.append(
            Kernel(
                f"k{place}",
                operator,
                phase,
                module,
                read,
                results=tuple(results),
                pointwise=operator == "aten.add.Tensor",
            )
        )
    gradients = [t.storage for k in made if k.phase == "backward" for t in k.results if t]
    wanted = tuple(Result(rng.choice(gradients), "gradient", parameter) for parameter in range(3))
    graph = ("milp-plan-capture", 1, f"random-{kernels}", "training", "2.13.0", 0)
    return Capture(*graph, tuple(storages), tuple(made), wanted)
