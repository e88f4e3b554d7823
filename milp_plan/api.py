"""Everything a formulation may import from this package.

What belongs to one kind comes from its folder: ``milp_plan.kinds.pipeline.reading``.
"""

from milp_plan.core import (
    FULL,
    Contiguity,
    FormulationError,
    MemoryLaw,
    Objective,
    OperatorRun,
    Passes,
    Placement,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.core.sharding import ShardingObjective, ShardingPlan, ShardingProblem
from milp_plan.cost.routes import Route
from milp_plan.kinds.placement.bounds.chain_windows import chain_windows
from milp_plan.kinds.placement.bounds.conflicts import conflicts_below
from milp_plan.kinds.schedule.coarsen.symmetry import interchangeable_devices
from milp_plan.kinds.schedule.model.retime import Arc, retime
from milp_plan.kinds.schedule.model.schedule import ScheduleData, ScheduleFormulation
from milp_plan.kinds.schedule.model.sets import Leg, ScheduleSets, TransferTask, needed_routes
from milp_plan.lp.tableau import Tableau, Term
from milp_plan.models.builders import (
    BuilderFormulation,
    add_le,
    coarser,
    column_values,
    label,
    require_supported,
    spread_levels,
)
from milp_plan.models.protocol import Card, CompiledModel, Guide, Neighbourhood, Scale, Values

__all__ = [
    "FULL",
    "Arc",
    "BuilderFormulation",
    "Card",
    "CompiledModel",
    "Contiguity",
    "FormulationError",
    "Guide",
    "Leg",
    "MemoryLaw",
    "Neighbourhood",
    "Objective",
    "OperatorRun",
    "Passes",
    "Placement",
    "Plan",
    "PlanningProblem",
    "Route",
    "Scale",
    "ScheduleData",
    "ScheduleFormulation",
    "ScheduleSets",
    "ShardingObjective",
    "ShardingPlan",
    "ShardingProblem",
    "Tableau",
    "Term",
    "Transfer",
    "TransferTask",
    "Value",
    "Values",
    "add_le",
    "chain_windows",
    "coarser",
    "column_values",
    "conflicts_below",
    "interchangeable_devices",
    "label",
    "needed_routes",
    "require_supported",
    "retime",
    "spread_levels",
]
