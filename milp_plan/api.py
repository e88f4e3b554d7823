"""Everything a formulation file may import from this package."""

from milp_plan.coarsen import interchangeable_devices
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    FormulationError,
    MemoryLaw,
    Objective,
    Operator,
    OperatorRun,
    Option,
    Placement,
    Plan,
    PlanningProblem,
    Transfer,
    Value,
)
from milp_plan.cost import Route, routes
from milp_plan.formulation.columns import Columns, label
from milp_plan.formulation.memory_rows import MemoryRows, at_most
from milp_plan.formulation.protocol import (
    Card,
    CompiledModel,
    Formulation,
    Guide,
    Neighbourhood,
    Values,
)
from milp_plan.formulation.retention import (
    Holder,
    Holding,
    Persistent,
    devices_at_risk,
    holdings,
    persistent,
)
from milp_plan.formulation.retime import Arc, retime
from milp_plan.formulation.sequence import Interval, Sequence, fixed_placements, intervals
from milp_plan.formulation.sets import (
    Leg,
    ScheduleSets,
    TransferTask,
    needed_routes,
    schedule_sets,
)
from milp_plan.formulation.symmetry import canonical_devices

__all__ = [
    "FULL",
    "Arc",
    "Card",
    "Channel",
    "Cluster",
    "Columns",
    "CommunicationModel",
    "CompiledModel",
    "ComputationGraph",
    "Device",
    "DeviceClass",
    "Formulation",
    "FormulationError",
    "Guide",
    "Holder",
    "Holding",
    "Interval",
    "Leg",
    "MemoryLaw",
    "MemoryRows",
    "Neighbourhood",
    "Objective",
    "Operator",
    "OperatorRun",
    "Option",
    "Persistent",
    "Placement",
    "Plan",
    "PlanningProblem",
    "Route",
    "ScheduleSets",
    "Sequence",
    "Transfer",
    "TransferTask",
    "Value",
    "Values",
    "at_most",
    "canonical_devices",
    "devices_at_risk",
    "fixed_placements",
    "holdings",
    "interchangeable_devices",
    "intervals",
    "label",
    "needed_routes",
    "persistent",
    "retime",
    "routes",
    "schedule_sets",
]
