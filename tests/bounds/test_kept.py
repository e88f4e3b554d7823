"""What bounds share is made once per frame, and proves what it proved when made anew."""

import numpy as np
import pytest

from milp_plan.core import Objective
from milp_plan.core.budget import Budget, OutOfTime
from milp_plan.kinds.schedule.bounds import view as view_module
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds, frame_of, infeasibility
from milp_plan.kinds.schedule.bounds.tight import tight_windows
from milp_plan.kinds.schedule.bounds.view import Separations, plain_separations
from tests.support.problems import random_problem


@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_the_same_whether_matrices_are_kept_or_not(seed, monkeypatch):
    def proved():
        problem = random_problem(seed, objective=Objective.MAKESPAN)
        obstacle = infeasibility(problem, Budget())
        return obstacle, [(bound.name, bound.value) for bound in all_bounds(problem, Budget())]

    kept = proved()
    monkeypatch.setattr(view_module, "LARGEST_KEPT", 0)
    assert proved() == kept


def test_separations_are_made_once_and_obey_the_budget_of_the_caller(monkeypatch):
    frame = frame_of(random_problem(3, objective=Objective.MAKESPAN))
    with pytest.raises(OutOfTime):
        _ = plain_separations(frame, Budget(0.0)).through
    found = plain_separations(frame, Budget())
    through = found.through.copy()
    tight_windows(frame, Budget())
    assert plain_separations(frame, Budget()) is found
    assert np.array_equal(found.through, through), "nobody writes into what is shared"
    monkeypatch.setattr(view_module, "LARGEST_KEPT", 0)
    fresh = plain_separations(frame, Budget())
    assert isinstance(fresh, Separations)
    assert fresh is not found
    assert np.array_equal(fresh.through, through)
