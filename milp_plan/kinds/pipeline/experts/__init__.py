"""Published pipeline schedules, each valid for any sizes and times it is defined for.

``WORDS`` gives a schedule as words of a shop, for searches that start from one; ``EXPERTS`` are
planners like all others.
"""

from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.schedule.planners.planner import Planner

from ..reading import shop_of
from ..timing import fits, times
from .dualpipe import dualpipe_words, dualpipev_words, overlapped_dualpipe
from .greedy import zb_1p_words, zb_2p_words, zb_auto_words
from .line import (
    eager_words,
    fitted_eager_words,
    gpipe_words,
    interleaved_words,
    one_f_one_b_words,
    zb_h1_words,
    zb_h2_words,
)
from .lines import Expert
from .v_search import v_auto_words, v_half_words, v_min_words
from .wave import chimera_words, hanayo_words
from .zero_bubble_v import zb_v_words

V_WORDS: dict[str, Expert] = {
    "zb_v": zb_v_words,
    "v_half": v_half_words,
    "v_min": v_min_words,
    "v_auto": v_auto_words,
}
"""Schedules that are found by a search for a pattern on a V placement."""

WORDS: dict[str, Expert] = {
    "gpipe": gpipe_words,
    "1f1b": one_f_one_b_words,
    "eager_1f1b": eager_words,
    "fitted_1f1b": fitted_eager_words,
    "interleaved_1f1b": interleaved_words,
    "zb_h1": zb_h1_words,
    "zb_h2": zb_h2_words,
    "zb_1p": zb_1p_words,
    "zb_2p": zb_2p_words,
    "zb_auto": zb_auto_words,
    **V_WORDS,
    "chimera": chimera_words,
    "dualpipe": dualpipe_words,
    "dualpipev": dualpipev_words,
    "hanayo": hanayo_words,
}
"""Name -> words of the schedule, ``None`` where it is not defined; limits are ignored."""

SEARCHES = {"v_auto": v_auto_words}
"""Experts that search for a while; they take the time at which to end."""


def _planner_of(name: str, expert: Expert) -> Planner:
    """Return the planner of an expert.

    It returns no plan where the problem is no shop, the schedule is not defined for it, or its
    memory does not suffice. The seed has no effect.
    """

    def planner(problem: PlanningProblem, seed: int = 0) -> Plan | None:  # noqa: ARG001
        shop = shop_of(problem)
        words = None if shop is None else expert(shop)
        if shop is None or words is None or not fits(shop, words):
            return None
        return shop.plan(times(shop, words), name)

    planner.__name__ = name
    planner.__doc__ = expert.__doc__
    return planner


EXPERTS: dict[str, Planner] = {name: _planner_of(name, expert) for name, expert in WORDS.items()}
"""Name -> planner."""

__all__ = ["EXPERTS", "SEARCHES", "V_WORDS", "WORDS", "Expert", "overlapped_dualpipe"]
