"""The kind ``training``: which parallel configuration for a model on a cluster.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .architecture import Architecture
    from .blocks import Attention, Block, Mlp, Moe
    from .cluster import TrainingCluster, training_cluster
    from .configuration import Configuration, Offload, Precision, Recompute, Schedule
    from .efficiency import DeviceRates, Efficiency, Software, shipped
    from .models import MODELS, model

_MODULES = {
    "architecture": ("Architecture",),
    "blocks": ("Attention", "Block", "Mlp", "Moe"),
    "cluster": ("TrainingCluster", "training_cluster"),
    "configuration": ("Configuration", "Offload", "Precision", "Recompute", "Schedule"),
    "efficiency": ("DeviceRates", "Efficiency", "Software", "shipped"),
    "models": ("MODELS", "model"),
}

__all__ = [
    "MODELS",
    "Architecture",
    "Attention",
    "Block",
    "Configuration",
    "DeviceRates",
    "Efficiency",
    "Mlp",
    "Moe",
    "Offload",
    "Precision",
    "Recompute",
    "Schedule",
    "Software",
    "TrainingCluster",
    "model",
    "shipped",
    "training_cluster",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
