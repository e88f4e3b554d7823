"""The kind ``training``: which parallel configuration for a model on a cluster.

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .architecture import Architecture
    from .blocks import Attention, Block, Mlp, Moe, Prediction
    from .cluster import DeviceGroup, Level, TrainingCluster, training_cluster
    from .configuration import Configuration, Offload, Precision, Recompute, Schedule
    from .costs import StageTime, StepTime, step_time
    from .efficiency import DeviceRates, Efficiency, Software, shipped, software_names
    from .memory import MemoryUse, device_memory
    from .models import MODELS, model

_MODULES = {
    "architecture": ("Architecture",),
    "blocks": ("Attention", "Block", "Mlp", "Moe", "Prediction"),
    "cluster": ("DeviceGroup", "Level", "TrainingCluster", "training_cluster"),
    "configuration": ("Configuration", "Offload", "Precision", "Recompute", "Schedule"),
    "costs": ("StageTime", "StepTime", "step_time"),
    "efficiency": ("DeviceRates", "Efficiency", "Software", "shipped", "software_names"),
    "memory": ("MemoryUse", "device_memory"),
    "models": ("MODELS", "model"),
}

__all__ = [
    "MODELS",
    "Architecture",
    "Attention",
    "Block",
    "Configuration",
    "DeviceGroup",
    "DeviceRates",
    "Efficiency",
    "Level",
    "MemoryUse",
    "Mlp",
    "Moe",
    "Offload",
    "Precision",
    "Prediction",
    "Recompute",
    "Schedule",
    "Software",
    "StageTime",
    "StepTime",
    "TrainingCluster",
    "device_memory",
    "model",
    "shipped",
    "software_names",
    "step_time",
    "training_cluster",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
