from milp_plan.core import Units
from milp_plan.report import MemoryPoint, TracePoint, memory_sweep, search_trace


def lines(figure):
    return {
        line.get_label(): list(zip(*(axis.tolist() for axis in line.get_data()), strict=True))
        for line in figure.axes[0].lines
    }


def test_trace_holds_the_last_news_to_the_end():
    points = [
        TracePoint(10, 8_000, 7_000),
        TracePoint(0, bound=5_000),
        TracePoint(1, 10_000),
        TracePoint(60),
    ]
    figure = search_trace(points, "tiny")
    assert lines(figure) == {
        "best plan": [(1, 10), (10, 8), (60, 8)],
        "bound": [(0, 5), (10, 7), (60, 7)],
    }
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == "tiny: gap 12.5%"
    assert axes.get_xlabel() == "search time (s)"
    assert axes.get_ylabel() == "value (µs)"
    assert all(line.get_drawstyle() == "steps-post" for line in axes.lines)


def test_trace_without_a_plan_has_no_gap():
    figure = search_trace([TracePoint(0, bound=5), TracePoint(2)], "tiny")
    assert list(lines(figure)) == ["bound"]
    assert figure.axes[0].get_title(loc="left") == "tiny"


def test_trace_of_nothing():
    figure = search_trace([], "tiny")
    assert lines(figure) == {}
    assert figure.axes[0].get_legend() is None


def test_trace_of_bytes_and_of_unspecified_units():
    points = [TracePoint(0, 4 * 2**20, 2**20)]
    assert search_trace(points, "t", of_bytes=True).axes[0].get_ylabel() == "value (MiB)"
    units = Units("unspecified", "unspecified", 1)
    assert search_trace(points, "t", units).axes[0].get_ylabel() == "value (unit unspecified)"


def test_memory_sweep_marks_what_has_no_plan():
    gib = 2**30
    points = [
        MemoryPoint(4 * gib, 2_000, 1_000),
        MemoryPoint(3 * gib, 3_000, 1_000),
        MemoryPoint(2 * gib),
        MemoryPoint(1 * gib, infeasible=True),
    ]
    figure = memory_sweep(points, "limits")
    assert lines(figure) == {
        "best plan": [(3, 3), (4, 2)],
        "bound": [(3, 1), (4, 1)],
        "proved infeasible": [(1, 0.03)],
        "no plan found": [(2, 0.03)],
    }
    assert figure.axes[0].get_xlabel() == "memory of a device (GiB)"


def test_memory_sweep_of_nothing():
    assert lines(memory_sweep([], "limits")) == {}
