from dataclasses import replace

import pytest
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from milp_plan.core import CommunicationModel, ComputationGraph, Units
from milp_plan.draw.canvas import COLOURS
from milp_plan.draw.timeline import timeline
from milp_plan.kinds.pipeline.experts import EXPERTS
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from tests.report.plans import MEMORY, chain, plan_of_two_devices, two_devices
from tests.support.ways import HOST, planted_ways


def bars(axes):
    """(kind, colour, row, [(start, stop)]) of every row and kind in the lanes."""
    found = []
    for collection in axes.collections:
        if isinstance(collection, LineCollection):
            continue  # the critical path
        boxes = [path.get_extents() for path in collection.get_paths()]
        spans = sorted((round(box.x0, 6), round(box.x1, 6)) for box in boxes)
        row = round((boxes[0].y0 + boxes[0].y1) / 2)
        found.append((collection.get_label(), to_hex(collection.get_facecolor()[0]), row, spans))
    return found


def limits(axes):
    return [line.get_ydata()[0] for line in axes.lines if line.get_label() == "limit"]


def labels_in(axes):
    """Words inside bars."""
    return [text.get_text() for text in axes.texts if not isinstance(text, Annotation)]


def chain_in(axes):
    """(row, start, stop) of what the critical path underlines."""
    (lines,) = (c for c in axes.collections if isinstance(c, LineCollection))
    return [(round(a[1] - 0.42), round(a[0], 6), round(b[0], 6)) for a, b in lines.get_segments()]


def said(axes):
    return " ".join(text.get_text() for text in axes.texts)


def test_lanes_and_bars():
    figure = timeline(two_devices(), plan_of_two_devices())
    axes = figure.axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["d0", "d1", "d0->d1", "d1->d0"]
    blue, orange, sky = (COLOURS[k].lower() for k in ("forward", "backward-input", "transfer"))
    assert sorted(bars(axes), key=lambda bar: (bar[2], bar[3])) == [
        ("forward", blue, 0, [(0, 2)]),
        ("backward-input", orange, 0, [(10, 14)]),
        ("forward", blue, 1, [(5, 8)]),
        ("transfer", sky, 2, [(2, 5)]),
        ("transfer", sky, 3, [(8, 10)]),
    ]
    assert figure.axes[-1].get_xlabel() == "time (µs)"
    assert figure.axes[-1].get_xlim() == (0, 14)
    title = axes.get_title(loc="left")
    assert title == "two-devices: makespan 14 µs, peak memory 4 MiB, planned by hand"
    kinds = [text.get_text() for text in figure.legends[0].get_texts()]
    assert kinds == ["forward", "backward-input", "transfer", "critical path", "memory"]


def test_labels_stand_where_they_fit():
    texts = labels_in(timeline(two_devices(), plan_of_two_devices()).axes[0])
    assert sorted(texts) == ["embed", "embed.dx@0", "gradient to d0", "head", "hidden to d1"]
    problem, plan = two_devices(), plan_of_two_devices()
    far = replace(plan.runs[2], start_ns=110_000, stop_ns=114_000)
    squeezed = timeline(problem, replace(plan, runs=(*plan.runs[:2], far)))
    assert labels_in(squeezed.axes[0]) == ["@0"]


def test_memory_curves_and_limits():
    figure = timeline(two_devices(), plan_of_two_devices())
    first, second = figure.axes[1:]
    assert limits(first) == limits(second) == [MEMORY / 2**20]
    (curve,) = (c for c in first.collections if isinstance(c, PolyCollection))
    top = {(round(x), round(y)) for x, y in curve.get_paths()[0].vertices}
    # weights 1 MiB; with the activation 3 from 0; with the gradient 4 from 8 to 14 µs
    assert {(0, 3), (8, 3), (8, 4), (14, 4)} <= top
    assert said(first) == "peak 4 MiB\nlimit 4 MiB"
    assert said(second) == "peak 3 MiB\nlimit 4 MiB"
    assert first.get_ylabel() == "d0"
    assert first.get_title(loc="left") == "memory (MiB)"


def test_a_limit_far_above_the_peak_is_named_not_drawn():
    axes = timeline(two_devices(memory_bytes=2**33), plan_of_two_devices()).axes[1]
    assert limits(axes) == []
    assert "limit 8 GiB (above)" in said(axes)
    assert axes.get_ylim()[1] < 5


def test_no_limit():
    axes = timeline(two_devices(memory_bytes=None), plan_of_two_devices()).axes[1]
    assert limits(axes) == []
    assert "no limit" in said(axes)


def test_units_that_the_source_does_not_name_are_not_invented():
    units = Units("unspecified", "unspecified", 1_000)
    figure = timeline(two_devices(units=units), plan_of_two_devices())
    assert figure.axes[-1].get_xlabel() == "time (unit unspecified)"
    assert figure.axes[-1].get_xlim() == (0, 14)
    assert figure.axes[1].get_title(loc="left") == "memory (unit unspecified)"
    assert "makespan 14, peak memory 4,194,304" in figure.axes[0].get_title(loc="left")


def test_a_large_plan_is_aggregated_and_says_so():
    problem, plan = chain(9)
    figure = timeline(problem, plan, most_tasks=5)
    assert [spans for _, _, _, spans in bars(figure.axes[0])] == [[(0, 90)], [(90, 100)]]
    assert "10 tasks are drawn as 2 bars" in figure.get_supxlabel()
    assert timeline(problem, plan).get_supxlabel() == ""


def test_overlapping_transfers_are_see_through():
    def see_through(model):
        axes = timeline(two_devices(model), plan_of_two_devices()).axes[0]
        return {c.get_label(): c.get_alpha() for c in axes.collections}

    assert see_through(CommunicationModel.DELAY)["transfer"] == pytest.approx(0.6)
    assert see_through(CommunicationModel.DELAY)["forward"] is None
    assert see_through(CommunicationModel.CHANNEL)["transfer"] is None


def test_times_beyond_64_bits():
    """Scaled inputs may exceed 64 bits; the picture is drawn from exact quotients."""
    problem, plan = chain(1)
    big = 10**30
    runs = [
        replace(run, start_ns=run.start_ns * big, stop_ns=run.stop_ns * big) for run in plan.runs
    ]
    figure = timeline(problem, replace(plan, runs=tuple(runs)))
    assert figure.axes[-1].get_xlim()[1] == pytest.approx(20 * big / 1e9)


def test_runs_again_are_hatched_and_hosts_have_channels_and_memory():
    cases = (planted_ways(seed) for seed in range(40))
    case = next(
        case
        for case in cases
        if len(case.plan.runs) > len(case.problem.graph.operators)
        and any(trip.source == (HOST,) for trip in case.plan.transfers)
        and case.problem.cluster.communication == "channel"
    )
    figure = timeline(case.problem, case.plan)
    lanes_of, *memory = figure.axes
    labels = [label.get_text() for label in lanes_of.get_yticklabels()]
    assert HOST not in labels
    assert any(label.startswith(f"{HOST}->") for label in labels)
    assert memory[-1].get_ylabel() == HOST
    bars = {c.get_label(): c for c in lanes_of.collections}
    hatched = {label for label, entry in bars.items() if entry.get_hatch()}
    assert hatched == {label for label in bars if label.endswith(", again")} != set()
    assert {"offload", "reload"} <= set(bars)
    for label in hatched:
        first = bars[label.removesuffix(", again")]
        assert tuple(first.get_facecolor()[0]) == tuple(bars[label].get_facecolor()[0])


def test_the_critical_path_is_underlined_and_lanes_say_how_busy_they_are():
    axes = timeline(two_devices(), plan_of_two_devices()).axes[0]
    assert sorted(chain_in(axes)) == [(0, 0, 2), (0, 10, 14), (1, 5, 8), (2, 2, 5), (3, 8, 10)]
    busy = [text.get_text() for text in axes.texts if isinstance(text, Annotation)]
    assert busy == ["43 % busy", "21 % busy", "21 % busy", "14 % busy"]


def test_a_broken_plan_has_no_critical_path():
    plan = plan_of_two_devices()
    early = replace(plan.runs[1], start_ns=0, stop_ns=3_000)
    axes = timeline(two_devices(), replace(plan, runs=(plan.runs[0], early, plan.runs[2]))).axes[0]
    assert not [c for c in axes.collections if isinstance(c, LineCollection)]


def test_memory_has_a_colour_of_its_own():
    figure = timeline(two_devices(), plan_of_two_devices())
    (curve,) = (c for c in figure.axes[1].collections if isinstance(c, PolyCollection))
    filled = to_hex(curve.get_facecolor()[0])
    assert filled not in {to_hex(colour) for colour in COLOURS.values()}


def spread(devices, used):
    """An operator on each of some devices; the others run nothing."""
    problem, plan = two_devices(), plan_of_two_devices()
    one = problem.graph.operators[0]
    ops = tuple(replace(one, name=f"o{i}") for i in range(used))
    names = [f"d{i}" for i in range(devices)]
    places = tuple(replace(problem.cluster.devices[0], name=name) for name in names)
    cluster = replace(problem.cluster, devices=places, channels=())
    runs = tuple(
        replace(plan.runs[0], operator=f"o{i}", devices=(names[i],), stop_ns=2_000)
        for i in range(used)
    )
    graph = ComputationGraph(ops, ())
    return replace(problem, graph=graph, cluster=cluster), replace(plan, runs=runs, transfers=())


def test_empty_devices_are_folded_away():
    figure = timeline(*spread(12, 2))
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["d0", "d1"]
    assert figure.get_supxlabel().startswith("10 devices run nothing and have no lane: d2, d3,")


def test_of_many_lanes_the_busiest_are_drawn():
    figure = timeline(*spread(200, 100))
    assert len(figure.axes[0].get_yticklabels()) == 48
    assert "The 48 busiest of 100 devices are drawn." in " ".join(figure.get_supxlabel().split())
    assert figure.get_size_inches()[1] < 20


def test_chunks_of_an_interleaved_pipeline_are_told_apart():
    template, _ = uniform(2, 2, (10, 10, 10), chunks=2)
    problem = pipeline_problem("interleaved", template, place("interleaved", 2, 2))
    plan = EXPERTS["interleaved_1f1b"](problem)
    assert plan is not None
    found = bars(timeline(problem, plan).axes[0])
    colour = {name: fill for name, fill, _, _ in found if name.startswith("forward")}
    assert set(colour) == {"forward, chunk 1", "forward, chunk 2"}
    assert colour["forward, chunk 1"] == COLOURS["forward"].lower()
    assert colour["forward, chunk 2"] != colour["forward, chunk 1"]
