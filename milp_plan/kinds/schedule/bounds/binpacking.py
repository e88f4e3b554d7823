"""Lower bounds on the number of bins, in exact integers.

A dual feasible function u maps sizes to sizes so that whatever fits into one bin still does; so
the sum of all u(size), rounded up, is a lower bound on the number of bins. Used are the function
of Martello and Toth's L2 (sizes above 1 - e count as a whole bin, sizes below e as nothing) and
Fekete and Schepers' u_k (2001): u_k(x) = x if (k + 1) x is an integer, else floor((k + 1) x) / k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from milp_plan.core import ceil_div

_LARGEST_K = 12
_THRESHOLDS = 40


def bins_needed(sizes: Iterable[int], capacity: int) -> int:
    """Return the least number of bins of ``capacity`` that might hold all sizes.

    Every size must be at most ``capacity``; sizes of zero need nothing.
    """
    counts = Counter(size for size in sizes if size > 0)
    if not counts:
        return 0
    best = ceil_div(sum(size * count for size, count in counts.items()), capacity)
    for k in range(1, _LARGEST_K + 1):
        best = max(best, _fekete_schepers(counts, capacity, k))
    small = sorted(size for size in counts if 2 * size <= capacity)
    step = max(1, len(small) // _THRESHOLDS)
    for threshold in small[::step]:
        best = max(best, _martello_toth(counts, capacity, threshold))
    return best


def _fekete_schepers(counts: Counter[int], capacity: int, k: int) -> int:
    # In units of 1 / (k * capacity).
    total = 0
    for size, count in counts.items():
        whole, rest = divmod((k + 1) * size, capacity)
        total += count * (k * size if rest == 0 else whole * capacity)
    return ceil_div(total, k * capacity)


def _martello_toth(counts: Counter[int], capacity: int, threshold: int) -> int:
    total = 0
    for size, count in counts.items():
        if size > capacity - threshold:
            total += count * capacity
        elif size >= threshold:
            total += count * size
    return ceil_div(total, capacity)


def least_capacity(sizes: Iterable[int], bins: int) -> int:
    """Return a capacity without which ``bins`` bins cannot hold the sizes.

    Any smaller capacity is too small: every size must fit, so must their sum, and the largest
    capacity refuted by :func:`bins_needed` plus one is needed.
    """
    kept = [size for size in sizes if size > 0]
    if not kept:
        return 0
    low = max(*kept, ceil_div(sum(kept), bins))
    if bins_needed(kept, low) <= bins:
        return low
    high = 2 * low  # first-fit fills every bin but one to more than half of it
    while high - low > 1:
        middle = (low + high) // 2
        if bins_needed(kept, middle) > bins:
            low = middle
        else:
            high = middle
    return low + 1
