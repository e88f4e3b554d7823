"""Generators of real architectures as planning problems."""

from .architecture import KINDS, SPLITS, Architecture, Layer
from .build import OPTIMIZERS, inference, training_step
from .catalogue import ARCHITECTURES, MODES, architecture, generate, shard
from .mesh_draft import flowing, layout_name
from .meshed import mesh_graph, mesh_on, meshed, meshes_on, sharding
from .shipped import MESHED, SHIPPED, Recipe
from .traps import TRAPS, Trap

__all__ = [
    "ARCHITECTURES",
    "KINDS",
    "MESHED",
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
    "flowing",
    "generate",
    "inference",
    "layout_name",
    "mesh_graph",
    "mesh_on",
    "meshed",
    "meshes_on",
    "shard",
    "sharding",
    "training_step",
]
