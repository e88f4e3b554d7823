"""Exact reductions of sharding problems: smaller problems with the same optimum.

Every step preserves the optimum, and turns a choice for the smaller problem into one for the
larger.
"""

from .stage import ShardingReduction, infeasible_rows, reduce_sharding

__all__ = ["ShardingReduction", "infeasible_rows", "reduce_sharding"]
