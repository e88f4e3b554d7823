"""Regions placed as a search over them found best."""

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import PlanningProblem
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, frame_of
from milp_plan.kinds.schedule.planners.constructions.base import Base
from milp_plan.kinds.schedule.planners.constructions.layouts import choices
from milp_plan.kinds.schedule.planners.constructions.solved import Solved
from milp_plan.kinds.schedule.planners.decoder import Decoder
from milp_plan.kinds.schedule.planners.indexed import indexed
from tests.bounds.samples import cluster, operator, problem, value

pytestmark = pytest.mark.untraced


def two_blocks() -> PlanningProblem:
    """Two forks with two equal branches each, worth two devices; a slow chain between them."""
    names = ["f", "a0", "a1", "j", "m", "g", "b0", "b1", "k", "t0", "t1"]
    ticks = dict.fromkeys(names, 5) | {"a0": 50, "a1": 50, "b0": 50, "b1": 50}
    edges = [
        *(("f", "a0"), ("f", "a1"), ("a0", "j"), ("a1", "j"), ("j", "m"), ("m", "g")),
        *(("g", "b0"), ("g", "b1"), ("b0", "k"), ("b1", "k"), ("k", "t0"), ("t0", "t1")),
    ]
    operators = [operator(name, ticks[name]) for name in names]
    return problem(operators, [value(f"{a}{b}", a, b, 3) for a, b in edges], cluster())


def test_branches_go_apart_and_the_rest_follows() -> None:
    p = two_blocks()
    tuple(all_bounds(p))  # searches the regions
    assert len(frame_of(p).homes) == 2
    solved, decoder, view = Solved(Base(p)), Decoder(p), indexed(p)
    values = []
    for choice in choices(solved.sizes):
        layout = solved.make(choice)
        if layout is None:
            continue
        order = np.arange(decoder.size, dtype=np.int64)
        units = np.array([view.unit[n] for n in decoder.compiled.order])
        site = np.array(layout.assigned.sites, dtype=np.int64)[units]
        found = decoder.decode(site, order, order)
        assert verify(p, decoder.plan()).value == found
        values.append(found)
        if choice[2] == 0:
            names = [decoder.compiled.operators[n].name for n in order]
            home = dict(zip(names, site.tolist(), strict=True))
            assert home["a0"] != home["a1"]
            assert home["b0"] != home["b1"]
            assert home["j"] == home["m"] == home["g"]
            assert home["k"] == home["t0"] == home["t1"]
    # A join on the device of the branch that came by wire: the other one comes by wire meanwhile.
    assert min(values) == 5 + (3 + 50) + 5 + 5 + 5 + (3 + 50) + 5 + 5 + 5


def test_without_regions_there_is_nothing_to_place() -> None:
    p = two_blocks()
    assert list(choices(Solved(Base(p)).sizes)) == []
