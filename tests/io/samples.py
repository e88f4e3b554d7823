"""Problems for the tests of this room: one with every field, and a strategy of random ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from milp_plan.core import (
    PLAIN_OBJECTIVES,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Plan,
    PlanningProblem,
    Transfer,
    Units,
    Value,
)
from milp_plan.io import native

HUGE = 10**28
"""More than 64 bits: scaled decimal sources have such times."""


def full_problem(name: str = "sample") -> PlanningProblem:
    """A problem that uses every field of the format."""
    operators = (
        Operator(
            "load",
            (
                Option("plain", {"H100": 5, "A100": HUGE}, 1, 7),
                Option("split", {"H100": 3}, 2, 0, {}, {"x": "split2"}),
            ),
            "forward",
            "embedding",
            0,
            "layer 0",
        ),
        Operator("use", (Option("plain", {"H100": 2}, reads={"x": "full"}),), "update"),
    )
    values = (
        Value("w", None, ("load", "use"), {"full": 100}),
        Value(
            "x",
            "load",
            ("use",),
            {"full": 10, "split2": 5},
            {"full": HUGE},
            3,
            {("split2", "full"): 4},
            True,
        ),
    )
    cluster = Cluster(
        (DeviceClass("H100", 1000), DeviceClass("A100", None)),
        (Device("h0", "H100", 1000), Device("h1", "H100", None), Device("a0", "A100", 500)),
        (Channel("h0", "h1", 10, 10**9), Channel("h1", "a0", 0, 5)),
        (("h0", "h1"),),
        CommunicationModel.ENDPOINT,
    )
    return PlanningProblem(
        name,
        ComputationGraph(operators, values),
        cluster,
        Objective.PEAK_MEMORY,
        MemoryLaw.STATIC,
        Units("ms", "unspecified", 1000),
        {"source": "made up – für Tests"},
    )


def full_plan() -> Plan:
    """A plan for it; not a valid one, for reading does not ask."""
    runs = (
        OperatorRun("load", "plain", ("h0",), 0, 5),
        OperatorRun("use", "plain", ("h1",), 60, HUGE),
    )
    transfers = (Transfer("x", ("h0",), ("h1",), "full", 5, 60),)
    return Plan("sample", runs, transfers, "abc", "makespan", HUGE, "by hand", {"seed": "1"})


def raw(problem: PlanningProblem | None = None) -> dict[str, Any]:
    """A problem as a JSON object, to be damaged."""
    document: dict[str, Any] = json.loads(native.to_json(problem or full_problem()))
    return document


def store(folder: Path, document: Any, name: str = "instance.json") -> Path:
    """Write a JSON object into a file of the folder."""
    path = folder / name
    path.write_text(json.dumps(document))
    return path


_counts = st.integers(0, 2**70)
_names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)


@st.composite
def problems(draw: st.DrawFn) -> PlanningProblem:
    """Random well-formed problems: layered graphs, one option each per class, odd names."""
    classes = draw(st.lists(_names, min_size=1, max_size=3, unique=True))
    memory = st.none() | _counts
    device_classes = tuple(DeviceClass(name, draw(memory)) for name in classes)
    device_names = draw(st.lists(_names, min_size=1, max_size=3, unique=True))
    devices = tuple(
        Device(name, draw(st.sampled_from(classes)), draw(memory)) for name in device_names
    )
    channels = tuple(
        Channel(a, b, draw(_counts), draw(st.integers(1, 2**70)))
        for a in device_names
        for b in device_names
        if a != b and draw(st.booleans())
    )
    names = draw(st.lists(_names, min_size=1, max_size=5, unique=True))
    operators = tuple(
        Operator(
            name,
            (Option("only", {c: draw(_counts) for c in classes}, 1, draw(_counts)),),
            micro_batch=draw(st.none() | st.integers(0, 3)),
            block=draw(st.none() | _names),
        )
        for name in names
    )
    values = []
    for position, name in enumerate(names):
        later = names[position + 1 :]
        consumers = tuple(n for n in later if draw(st.booleans()))
        sizes = {"full": draw(_counts), "other": draw(_counts)}
        values.append(
            Value(
                f"out {name}",
                name,
                consumers,
                sizes if draw(st.booleans()) else {"full": 3},
                draw(st.sampled_from(({}, {"full": 8}))),
                draw(st.integers(1, 4)),
                kept=draw(st.sampled_from((None, True, False))),
            )
        )
    return PlanningProblem(
        draw(_names),
        ComputationGraph(operators, tuple(values)),
        Cluster(device_classes, devices, channels, (), draw(st.sampled_from(CommunicationModel))),
        draw(st.sampled_from(PLAIN_OBJECTIVES)),
        draw(st.sampled_from(MemoryLaw)),
        provenance=draw(st.dictionaries(_names, _names, max_size=2)),
    )
