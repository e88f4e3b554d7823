from milp_plan.core import Units
from milp_plan.report import MemoryPoint, memory_curves, memory_sweep


def lines(figure):
    return {
        line.get_label(): list(zip(*(axis.tolist() for axis in line.get_data()), strict=True))
        for line in figure.axes[0].lines
    }


def test_memory_sweep_of_bytes_and_of_unspecified_units():
    points = [MemoryPoint(2**20, 4 * 2**20, 2**20)]
    assert memory_sweep(points, "t", of_bytes=True).axes[0].get_ylabel() == "value (MiB)"
    units = Units("unspecified", "unspecified", 1)
    assert memory_sweep(points, "t", units).axes[0].get_ylabel() == "value (unit unspecified)"


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


def test_memory_curves_have_a_line_for_each_way():
    gib = 2**30
    none = [MemoryPoint(2 * gib, 2_000), MemoryPoint(gib, infeasible=True)]
    both = [MemoryPoint(2 * gib, 2_000), MemoryPoint(gib, 3_000)]
    figure = memory_curves({"none": none, "both": both}, "curves")
    drawn = lines(figure)
    assert drawn["none"] == [(2, 2)]
    assert drawn["both"] == [(1, 3), (2, 2)]
    assert [(1, 0.03)] in drawn.values()
