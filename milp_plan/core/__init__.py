"""Core types. This room imports the standard library only."""

from .cluster import Channel, Cluster, CommunicationModel, Device, DeviceClass
from .errors import (
    BackendFailureError,
    BackendUnavailableError,
    Finding,
    FormulationError,
    InputError,
    MilpPlanError,
    MissingFacetError,
    UnsupportedProblemError,
)
from .graph import FULL, UPDATE_KIND, ComputationGraph, Operator, Option, Value
from .plan import OperatorRun, Placement, Plan, Transfer
from .problem import MemoryLaw, Objective, PlanningProblem
from .quantity import TICKS_PER_SECOND, Units, ceil_div, exact_scale, to_ticks
from .verdict import Verdict, Violation

__all__ = [
    "FULL",
    "TICKS_PER_SECOND",
    "UPDATE_KIND",
    "BackendFailureError",
    "BackendUnavailableError",
    "Channel",
    "Cluster",
    "CommunicationModel",
    "ComputationGraph",
    "Device",
    "DeviceClass",
    "Finding",
    "FormulationError",
    "InputError",
    "MemoryLaw",
    "MilpPlanError",
    "MissingFacetError",
    "Objective",
    "Operator",
    "OperatorRun",
    "Option",
    "Placement",
    "Plan",
    "PlanningProblem",
    "Transfer",
    "Units",
    "UnsupportedProblemError",
    "Value",
    "Verdict",
    "Violation",
    "ceil_div",
    "exact_scale",
    "to_ticks",
]
