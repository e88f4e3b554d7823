"""Everything a formulation may import from this package."""

from milp_plan.bounds.chain_windows import chain_windows
from milp_plan.bounds.serial_conflicts import conflicts_below
from milp_plan.coarsen import interchangeable_devices
from milp_plan.core import (
    FULL,
    Contiguity,
    FormulationError,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Passes,
    Placement,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.core.labelling import Labelling
from milp_plan.core.packing import (
    Buffer,
    PackingObjective,
    PackingPlan,
    PackingProblem,
    Place,
)
from milp_plan.core.rematerialisation import (
    RematerialisationObjective,
    RematerialisationPlan,
    RematerialisationProblem,
)
from milp_plan.core.resharding import Delivery, ReshardingPlan, ReshardingProblem
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
from milp_plan.models.sets import Leg, ScheduleSets, TransferTask, needed_routes
from milp_plan.models.slots import SlotRows
from milp_plan.models.stages import Amounts, Staged
from milp_plan.pipeline import (
    Deadlock,
    Held,
    OffloadShop,
    Precedence,
    Shop,
    best_times,
    longest_paths,
    read_offload,
    read_shop,
    residence_bound,
    value_of,
    words_of,
)
from milp_plan.serial import SerialGraph, read_places, read_serial
from milp_plan.serial.atoms import merged_tables
from milp_plan.serial.colocation import colocated
from milp_plan.serial.order import chain_graph
from milp_plan.serial.windows import most_within

__all__ = [
    "FULL",
    "Amounts",
    "Buffer",
    "BuilderFormulation",
    "Card",
    "CompiledModel",
    "Contiguity",
    "Deadlock",
    "Delivery",
    "FormulationError",
    "Guide",
    "Held",
    "Labelling",
    "Leg",
    "MemoryLaw",
    "Neighbourhood",
    "Objective",
    "OffloadShop",
    "Operator",
    "OperatorRun",
    "Option",
    "PackingObjective",
    "PackingPlan",
    "PackingProblem",
    "Passes",
    "Place",
    "Placement",
    "Plan",
    "PlanningProblem",
    "Precedence",
    "RematerialisationObjective",
    "RematerialisationPlan",
    "RematerialisationProblem",
    "ReshardingPlan",
    "ReshardingProblem",
    "Route",
    "Scale",
    "ScheduleSets",
    "SerialGraph",
    "ShardingObjective",
    "ShardingPlan",
    "ShardingProblem",
    "Shop",
    "SlotRows",
    "Staged",
    "Tableau",
    "Term",
    "Transfer",
    "TransferTask",
    "Value",
    "Values",
    "at_most",
    "best_times",
    "chain_graph",
    "chain_windows",
    "coarser",
    "colocated",
    "column_values",
    "conflicts_below",
    "interchangeable_devices",
    "label",
    "longest_paths",
    "merged_tables",
    "most_within",
    "needed_routes",
    "read_labelling",
    "read_offload",
    "read_places",
    "read_serial",
    "read_shop",
    "residence_bound",
    "spread_levels",
    "suited",
    "value_of",
    "words_of",
]
