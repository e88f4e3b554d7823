"""Panels as figures of matplotlib: what is drawn, written, merged and left out."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex

from milp_plan.core import CommunicationModel, ComputationGraph, InputError, Units
from milp_plan.core.sharding import ShardingPlan, sharding_problem
from milp_plan.draw.canvas import COLOURS
from milp_plan.kinds.hybrid.plan import Choice, HybridPlan, Stage
from milp_plan.kinds.hybrid.problem import Configuration, HybridProblem, Layer, Limits
from milp_plan.kinds.pipeline.experts import EXPERTS
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.run import kind_of
from tests.report.plans import MEMORY, chain, plan_of_two_devices, two_devices
from tests.support.memory_saving import HOST, planted_memory_saving


def drawn(problem: Any, plan: Any) -> Any:
    return kind_of(problem).draw(problem, plan)


def bars(axes: Any) -> dict[str, Any]:
    """Boxes of each kind."""
    return {c.get_label(): c for c in axes.collections if isinstance(c, PolyCollection)}


def spans(collection: Any) -> list[tuple[int, float, float]]:
    """Row, start and stop of each box."""
    boxes = [path.get_extents() for path in collection.get_paths()]
    return sorted(
        (round((b.y0 + b.y1) / 2), round(float(b.x0), 6), round(float(b.x1), 6)) for b in boxes
    )


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def rows(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_rows_boxes_names_and_the_critical_path() -> None:
    figure = drawn(two_devices(), plan_of_two_devices())
    axes, memory = figure.axes
    assert rows(axes) == ["d0", "d1", "d0->d1", "d1->d0"]
    assert {kind: spans(found) for kind, found in bars(axes).items()} == {
        "forward": [(0, 0, 2), (1, 5, 8)],
        "backward-input": [(0, 10, 14)],
        "transfer": [(2, 2, 5), (3, 8, 10)],
    }
    for kind, found in bars(axes).items():
        assert to_hex(found.get_facecolor()[0]) == COLOURS[kind].lower()
    (lines,) = (c for c in axes.collections if isinstance(c, LineCollection))
    chain_of = sorted((round(a[1] - 0.42), round(a[0], 6)) for a, _ in lines.get_segments())
    assert chain_of == [(0, 0), (0, 10), (1, 5), (2, 2), (3, 8)]
    busy = ["43 % busy", "21 % busy", "21 % busy", "14 % busy"]
    names = ["embed", "embed.dx@0", "gradient to d0", "head", "hidden to d1"]
    assert texts(axes)[:4] == busy
    assert sorted(texts(axes)[4:]) == names
    assert axes.get_title(loc="left") == "two-devices: makespan 14 µs, planned by hand"
    assert (memory.get_xlabel(), memory.get_xlim()) == ("time (µs)", (0, 14))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["forward", "backward-input", "transfer", "critical path", "memory", "limit"]


def test_the_longest_form_of_a_name_that_fits() -> None:
    problem, plan = two_devices(), plan_of_two_devices()
    far = replace(plan.runs[2], start_ticks=110_000, stop_ticks=114_000)
    squeezed = drawn(problem, replace(plan, runs=(*plan.runs[:2], far)))
    assert texts(squeezed.axes[0])[4:] == ["@0"]


def test_memory_has_its_limits_unless_they_are_far_above() -> None:
    axes = drawn(two_devices(), plan_of_two_devices()).axes[1]
    assert len(axes.lines) == 2
    assert texts(axes) == ["100 % of 4 MiB", "75 % of 4 MiB"]
    assert axes.get_title(loc="left") == "Memory"
    for bytes_of in (2**33, None):
        figure = drawn(two_devices(memory_bytes=bytes_of), plan_of_two_devices())
        assert bool(figure.axes[1].lines) is False
    assert texts(figure.axes[1]) == ["4 MiB", "3 MiB"]


def test_units_that_the_source_does_not_name_are_not_invented() -> None:
    units = Units("unspecified", "unspecified", 1_000)
    figure = drawn(two_devices(units=units), plan_of_two_devices())
    assert figure.axes[-1].get_xlabel() == "time"
    assert figure.axes[-1].get_xlim() == (0, 14)
    assert texts(figure.axes[1])[0] == f"100 % of {MEMORY:,}"


def test_many_boxes_are_merged_and_a_note_says_so() -> None:
    problem, plan = chain(500)
    figure = drawn(problem, plan)
    assert spans(bars(figure.axes[0])["forward"]) == [(0, 0, 5.0)]
    assert "501 tasks are drawn as 2 bars" in figure.get_supxlabel()
    assert "drawn as" not in drawn(*chain(9)).get_supxlabel()


def test_a_wide_gap_keeps_neighbours_apart() -> None:
    problem, plan = chain(500)
    late = [
        replace(run, start_ticks=run.start_ticks + later, stop_ticks=run.stop_ticks + later)
        for k, run in enumerate(plan.runs)
        for later in [1_000 * (k >= 250)]
    ]
    figure = drawn(problem, replace(plan, runs=tuple(late)))
    assert len(spans(bars(figure.axes[0])["forward"])) == 2


def test_overlapping_transfers_are_see_through() -> None:
    def alpha(start: int) -> Any:
        problem, plan = two_devices(CommunicationModel.DELAY), plan_of_two_devices()
        moved = replace(plan.transfers[1], start_ticks=start, stop_ticks=start + 2_000)
        twice = replace(plan, transfers=(*plan.transfers, moved))
        return bars(drawn(problem, twice).axes[0])["transfer"].get_alpha()

    assert alpha(9_000) == pytest.approx(0.6)
    assert alpha(11_000) is None


def test_times_beyond_64_bits() -> None:
    """Scaled inputs may exceed 64 bits; the picture is drawn from exact quotients."""
    problem, plan = chain(1)
    big = 10**30
    runs = [
        replace(run, start_ticks=run.start_ticks * big, stop_ticks=run.stop_ticks * big)
        for run in plan.runs
    ]
    figure = drawn(problem, replace(plan, runs=tuple(runs)))
    assert figure.axes[-1].get_xlim()[1] == pytest.approx(20 * big / 1e9)


def test_runs_again_are_hatched_and_hosts_have_channels_and_memory() -> None:
    case = next(
        case
        for case in (planted_memory_saving(seed) for seed in range(40))
        if len(case.plan.runs) > len(case.problem.graph.operators)
        and any(trip.source == (HOST,) for trip in case.plan.transfers)
        and case.problem.cluster.communication == "channel"
    )
    axes, memory = drawn(case.problem, case.plan).axes
    assert HOST not in rows(axes)
    assert any(row.startswith(f"{HOST}->") for row in rows(axes))
    assert rows(memory)[-1] == HOST
    found = bars(axes)
    hatched = {kind for kind, boxes in found.items() if boxes.get_hatch()}
    assert hatched == {kind for kind in found if kind.endswith(", again")} != set()
    assert {"offload", "reload"} <= set(found)
    for kind in hatched:
        first = found[kind.removesuffix(", again")]
        assert tuple(first.get_facecolor()[0]) == tuple(found[kind].get_facecolor()[0])


def test_a_broken_plan_has_no_critical_path() -> None:
    plan = plan_of_two_devices()
    early = replace(plan.runs[1], start_ticks=0, stop_ticks=3_000)
    axes = drawn(two_devices(), replace(plan, runs=(plan.runs[0], early, plan.runs[2]))).axes[0]
    assert not [c for c in axes.collections if isinstance(c, LineCollection)]


def test_of_many_rows_the_busiest_are_drawn() -> None:
    problem, plan = two_devices(), plan_of_two_devices()
    one = problem.graph.operators[0]
    names = [f"d{i}" for i in range(200)]
    graph = ComputationGraph(tuple(replace(one, name=f"o{i}") for i in range(100)), ())
    places = tuple(replace(problem.cluster.devices[0], name=name) for name in names)
    runs = tuple(
        replace(plan.runs[0], operator=f"o{i}", devices=(names[i],), stop_ticks=2_000 + 10 * i)
        for i in range(100)
    )
    cluster = replace(problem.cluster, devices=places, channels=())
    wide = replace(problem, graph=graph, cluster=cluster)
    figure = drawn(wide, replace(plan, runs=runs, transfers=()))
    assert rows(figure.axes[0]) == names[52:100]
    assert len(spans(bars(figure.axes[0])["forward"])) == 48
    notes = " ".join(figure.get_supxlabel().split())
    assert "100 devices run nothing and have no lane: d100, d101," in notes
    assert "The 48 busiest of 100 rows are drawn." in notes
    assert figure.get_size_inches()[1] < 30


def test_chunks_of_an_interleaved_pipeline_are_distinguished() -> None:
    template, _ = uniform(2, 2, (10, 10, 10), chunks=2)
    problem = pipeline_problem("interleaved", template, place("interleaved", 2, 2))
    plan = EXPERTS["interleaved_1f1b"](problem)
    assert plan is not None
    found = bars(drawn(problem, plan).axes[0])
    colour = {kind: to_hex(c.get_facecolor()[0]) for kind, c in found.items() if "forward" in kind}
    assert set(colour) == {"forward, chunk 1", "forward, chunk 2"}
    assert colour["forward, chunk 1"] == COLOURS["forward"].lower()
    assert colour["forward, chunk 2"] != colour["forward, chunk 1"]


ONE = Fraction(1)


def test_a_bar_per_stage_against_the_limit() -> None:
    way = Configuration("plain", ONE, Fraction(0), Fraction(10), ONE)
    layers = tuple(Layer(name, {1: (way,)}) for name in "ab")
    problem = HybridProblem("two", layers, (), Limits(2, Fraction(100), ONE, 4))
    stages = tuple(Stage((Choice(name, "plain"),), 1, 1) for name in "ab")
    first, second = drawn(problem, HybridPlan("two", stages)).axes
    assert spans(bars(first)["time"]) == [(0, 0, 1), (1, 0, 1)]
    assert spans(bars(second)["in use"]) == [(0, 0, 21), (1, 0, 11)]  # two and one in flight
    assert second.get_xlim()[1] == 100
    with pytest.raises(InputError, match="every layer in one stage"):
        drawn(problem, HybridPlan("two", stages[:1]))


def test_memory_at_every_instant_against_the_limit() -> None:
    problem = sharding_problem("three", [[1], [1], [1]], usages=[[3], [4], [5]], limit=12)
    (axes,) = drawn(problem, ShardingPlan("three", (0, 0, 0))).axes
    used, limit = axes.lines
    assert max(used.get_ydata()) == 12
    assert used.get_ydata()[-1] == 0
    assert limit.get_ydata()[0] == 12
    with pytest.raises(InputError, match="a strategy for each of 3 operators"):
        drawn(problem, ShardingPlan("three", (0,)))
