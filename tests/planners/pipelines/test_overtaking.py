"""Local search by scheduling words anew."""

from __future__ import annotations

from milp_plan.check import verify
from milp_plan.kinds.pipeline.case import Case, build
from milp_plan.kinds.pipeline.experts import WORDS
from milp_plan.kinds.pipeline.model import Model
from milp_plan.kinds.pipeline.planners.overtaking import Overtaking
from milp_plan.kinds.pipeline.planners.search import one_by_one
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.timing import Words, fits, times, value_of


def shop(family: str = "line", memory: int = 3) -> Shop:
    model = Model.from_share((10, 12, 7), 1)
    found = shop_of(build(Case(model, 4, 8, family, memory=memory)).problem)
    assert found is not None
    return found


def search(case: Shop, rounds: int, seed: int = 0, start: Words | None = None) -> list[int]:
    found = Overtaking(case, seed)
    found.add(start or one_by_one(case))
    values: list[int] = []

    def better(words: Words, value: int) -> None:
        assert fits(case, words)
        starts = times(case, words)
        assert value_of(case, starts) == value
        verdict = verify(case.problem, case.plan(starts, "overtaking"))
        assert verdict.ok
        assert verdict.value == value
        values.append(value)

    found.run(None, better, rounds=rounds)
    return values


def test_it_improves_from_the_poorest_words() -> None:
    case = shop()
    values = search(case, 150)
    assert values == sorted(values, reverse=True)
    assert values[-1] <= 356  # a repeating pattern reaches 356, the optimum is 337
    assert values[-1] >= 337


def test_it_repeats_with_its_seed() -> None:
    case = shop("v")
    assert search(case, 40) == search(case, 40)


def test_it_stops_at_the_bound() -> None:
    case = shop(memory=8)
    words = WORDS["zb_h2"](case)
    assert words is not None
    known = value_of(case, times(case, words))
    found = Overtaking(case, 0)
    found.add(words)
    found.run(None, lambda *_: None, lower=known)
    assert found.elite == [(known, words)]
