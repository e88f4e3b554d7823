"""Published pipeline schedules, each valid for any sizes and times it is defined for.

``WORDS`` gives a schedule as words of a shop, for searches that start from one; ``EXPERTS`` are
planners like all others.
"""

from ..planner import Planner
from . import bidirectional, greedy, interleaved, line, v_search, wave, zero_bubble
from .bidirectional import overlapped_dualpipe
from .expert import Expert, planner_of

WORDS: dict[str, Expert] = {
    **line.WORDS,
    **interleaved.WORDS,
    **zero_bubble.WORDS,
    **greedy.WORDS,
    **v_search.WORDS,
    **bidirectional.WORDS,
    **wave.WORDS,
}
"""Name -> words of the schedule, ``None`` where it is not defined; limits are not looked at."""

SEARCHES = v_search.SEARCHES
"""Those of them that can be told when to end."""

EXPERTS: dict[str, Planner] = {name: planner_of(name, expert) for name, expert in WORDS.items()}
"""Name -> planner."""

__all__ = ["EXPERTS", "SEARCHES", "WORDS", "Expert", "overlapped_dualpipe", "planner_of"]
