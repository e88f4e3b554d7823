"""The kind ``training``: which parallel configuration for a model on a cluster."""

from .architecture import Architecture
from .blocks import Attention, Block, Mlp, Moe, Prediction
from .cluster import DeviceGroup, Level, TrainingCluster, training_cluster
from .configuration import Configuration, Offload, Precision, Recompute, Schedule
from .costs import StageTime, StepTime, step_time
from .efficiency import DeviceRates, Efficiency, Software, shipped, software_names
from .memory import MemoryUse, device_memory
from .models import MODELS, model

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
