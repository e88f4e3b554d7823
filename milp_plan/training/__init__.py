"""The kind ``training``: which parallel configuration for a model on a cluster."""

from .architecture import Architecture, Attention, Block, Mlp, Moe, Prediction
from .cluster import DeviceGroup, Level, TrainingCluster, training_cluster
from .configuration import Configuration, Offload, Precision, Recompute, Schedule
from .models import MODELS, model

__all__ = [
    "MODELS",
    "Architecture",
    "Attention",
    "Block",
    "Configuration",
    "DeviceGroup",
    "Level",
    "Mlp",
    "Moe",
    "Offload",
    "Precision",
    "Prediction",
    "Recompute",
    "Schedule",
    "TrainingCluster",
    "model",
    "training_cluster",
]
