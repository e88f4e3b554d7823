"""Exact reductions of sharding problems: smaller problems with the same optimum, and the way back.

Everything here keeps the optimum; every step knows how a choice for the smaller problem becomes one
for the larger.
"""

from .stage import ShardingReduction, infeasible_rows, reduce_sharding

__all__ = ["ShardingReduction", "infeasible_rows", "reduce_sharding"]
