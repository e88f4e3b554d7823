"""Everything a formulation may import from this package.

Readings of a problem come by their room: ``pipeline.read_shop``, ``serial.read_places``, and the
nouns of address packing by their module.
"""

from milp_plan import pipeline, serial
from milp_plan.bounds.chain_windows import chain_windows
from milp_plan.bounds.serial_conflicts import conflicts_below
from milp_plan.coarsen import interchangeable_devices
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
    local_updates,
    packing,
    resharding,
    training_stages,
)
from milp_plan.core.labelling import Labelling
from milp_plan.core.rematerialisation import (
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.core.sharding import ShardingObjective, ShardingPlan, ShardingProblem
from milp_plan.cost import Route
from milp_plan.lp.tableau import Tableau, Term
from milp_plan.models.builders import (
    BuilderFormulation,
    at_most,
    coarser,
    column_values,
    label,
    spread_levels,
    suited,
)
from milp_plan.models.labelling import read_labelling
from milp_plan.models.protocol import Card, CompiledModel, Guide, Neighbourhood, Scale, Values
from milp_plan.models.retime import Arc, retime
from milp_plan.models.schedule import ScheduleData, ScheduleFormulation
from milp_plan.models.sets import Leg, ScheduleSets, TransferTask, needed_routes
from milp_plan.models.staged import StagedFormulation, StagedRows
from milp_plan.models.stages import Amounts, Staged
from milp_plan.planners.local_updates import plan_stops as step_stops

__all__ = [
    "FULL",
    "Amounts",
    "Arc",
    "BuilderFormulation",
    "Card",
    "CompiledModel",
    "Contiguity",
    "FormulationError",
    "Guide",
    "Labelling",
    "Leg",
    "MemoryLaw",
    "Neighbourhood",
    "Objective",
    "OperatorRun",
    "Passes",
    "Placement",
    "Plan",
    "PlanningProblem",
    "RematerialisationObjective",
    "RematerialisationPlan",
    "RematerialisationProblem",
    "Route",
    "Scale",
    "ScheduleData",
    "ScheduleFormulation",
    "ScheduleSets",
    "ShardingObjective",
    "ShardingPlan",
    "ShardingProblem",
    "Staged",
    "StagedFormulation",
    "StagedRows",
    "Tableau",
    "Term",
    "Transfer",
    "TransferTask",
    "Value",
    "Values",
    "at_most",
    "chain_windows",
    "coarser",
    "column_values",
    "conflicts_below",
    "interchangeable_devices",
    "label",
    "local_updates",
    "needed_routes",
    "packing",
    "pipeline",
    "read_labelling",
    "resharding",
    "retime",
    "serial",
    "spread_levels",
    "step_stops",
    "suited",
    "training_stages",
]
