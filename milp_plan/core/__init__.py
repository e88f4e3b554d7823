"""Core types: problems, plans, clusters. Imports the standard library and numpy alone."""

from .cluster import Channel, Cluster, CommunicationModel, Device, DeviceClass
from .errors import (
    BackendFailureError,
    BackendUnavailableError,
    Finding,
    FormulationError,
    FormulationFailureError,
    InputError,
    MilpPlanError,
    MissingFacetError,
    UnsupportedProblemError,
    UnusedOptionError,
    unused_option,
)
from .graph import FULL, UPDATE_KIND, ComputationGraph, Operator, Option, Value
from .plan import OperatorRun, Placement, Plan, Transfer
from .problem import PLAIN_OBJECTIVES, MemoryLaw, Objective, PlanningProblem
from .quantity import TICKS_PER_SECOND, Amount, Units, ceil_div, exact_scale, to_ticks
from .serial import BACKWARD_KINDS, Contiguity, Passes, SerialLaw, transfer_ticks
from .verdict import Counts, Verdict, Violation

__all__ = [
    "BACKWARD_KINDS",
    "FULL",
    "PLAIN_OBJECTIVES",
    "TICKS_PER_SECOND",
    "UPDATE_KIND",
    "Amount",
    "BackendFailureError",
    "BackendUnavailableError",
    "Channel",
    "Cluster",
    "CommunicationModel",
    "ComputationGraph",
    "Contiguity",
    "Counts",
    "Device",
    "DeviceClass",
    "Finding",
    "FormulationError",
    "FormulationFailureError",
    "InputError",
    "MemoryLaw",
    "MilpPlanError",
    "MissingFacetError",
    "Objective",
    "Operator",
    "OperatorRun",
    "Option",
    "Passes",
    "Placement",
    "Plan",
    "PlanningProblem",
    "SerialLaw",
    "Transfer",
    "Units",
    "UnsupportedProblemError",
    "UnusedOptionError",
    "Value",
    "Verdict",
    "Violation",
    "ceil_div",
    "exact_scale",
    "to_ticks",
    "transfer_ticks",
    "unused_option",
]
