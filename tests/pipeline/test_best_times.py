"""Times of words: earliest for the makespan, least span for the span."""

from __future__ import annotations

from random import Random

import pytest

from milp_plan.check import verify
from milp_plan.core import Objective
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.span import best_times
from milp_plan.kinds.pipeline.timing import times, value_of
from milp_plan.kinds.schedule.model.planted import planted_pipeline, planted_words
from tests.support.words import word_value


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.SPAN])
def test_no_schedule_of_the_words_is_better(objective: Objective) -> None:
    shorter = 0
    for seed in range(60):
        problem, _ = planted_pipeline(seed, objective)
        case = shop_of(problem)
        assert case is not None
        words = planted_words(Random(seed), case)
        starts = best_times(case, words)
        value = value_of(case, starts)
        assert value == word_value(case, [tuple(word) for word in words])
        rules = {v.rule for v in verify(problem, case.plan(starts, "test")).violations}
        assert rules <= {"memory"}  # random words need not fit
        shorter += value < value_of(case, times(case, words))
    assert (shorter > 5) == (objective is Objective.SPAN)
