"""The cost model of PaSE (Elango, IPDPS 2021): splits of loops, collectives inside, resharding."""

from .layers import Layer, LayerGraph, Tensor, configurations
from .rates import Rates
from .tables import MULTIPLY_ADD_TICKS, pase_problem, pase_tables
from .work import (
    Loss,
    Mean,
    Normalise,
    Nothing,
    Pointwise,
    Pooling,
    Product,
    Recurrence,
    Softmax,
    Work,
)

__all__ = [
    "MULTIPLY_ADD_TICKS",
    "Layer",
    "LayerGraph",
    "Loss",
    "Mean",
    "Normalise",
    "Nothing",
    "Pointwise",
    "Pooling",
    "Product",
    "Rates",
    "Recurrence",
    "Softmax",
    "Tensor",
    "Work",
    "configurations",
    "pase_problem",
    "pase_tables",
]
