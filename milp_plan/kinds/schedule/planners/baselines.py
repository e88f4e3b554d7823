"""The planners by name. Each takes (problem, seed=0) and returns a valid plan or ``None``."""

from __future__ import annotations

from .balance import balance_load
from .iterated import iterated_greedy
from .lists import (
    dfs_release,
    etf_memory,
    heft,
    list_critical_path,
    list_most_successors,
    list_topological,
    single_device,
)
from .peaks import low_peak
from .planner import Planner
from .splits import contiguous, round_robin_blocks
from .strategies import sharding_first

PLANNERS: dict[str, Planner] = {
    "single_device": single_device,
    "list_topological": list_topological,
    "list_critical_path": list_critical_path,
    "list_most_successors": list_most_successors,
    "heft": heft,
    "etf_memory": etf_memory,
    "dfs_release": dfs_release,
    "contiguous": contiguous,
    "round_robin_blocks": round_robin_blocks,
    "sharding_first": sharding_first,
    "balance_load": balance_load,
    "low_peak": low_peak,
    "iterated_greedy": iterated_greedy,
}
