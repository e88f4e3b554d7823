"""Generators of real architectures as planning problems."""

from .architecture import KINDS, SPLITS, Architecture, Layer
from .build import OPTIMIZERS, inference, training_step
from .catalogue import ARCHITECTURES, MODES, architecture, generate
from .shipped import SHIPPED, Recipe
from .traps import TRAPS, Trap

__all__ = [
    "ARCHITECTURES",
    "KINDS",
    "MODES",
    "OPTIMIZERS",
    "SHIPPED",
    "SPLITS",
    "TRAPS",
    "Architecture",
    "Layer",
    "Recipe",
    "Trap",
    "architecture",
    "generate",
    "inference",
    "training_step",
]
