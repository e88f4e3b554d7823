"""Pipelines: templates and placements unrolled into problems, and problems read as job shops."""

from .case import Built, Case, Model, Piece, build
from .placement import FAMILIES, bidirectional, interleaved, line, place, wave
from .reading import read_shop, shop_of
from .shop import TRANSFER, Journey, Kind, Shop
from .template import BACKWARD, FORWARD, JOINT, WEIGHT, Stage, Template, pipeline_problem, uniform
from .timing import Deadlock, Starts, Words, fits, memory_peaks, times, value_of, words_of

__all__ = [
    "BACKWARD",
    "FAMILIES",
    "FORWARD",
    "JOINT",
    "TRANSFER",
    "WEIGHT",
    "Built",
    "Case",
    "Deadlock",
    "Journey",
    "Kind",
    "Model",
    "Piece",
    "Shop",
    "Stage",
    "Starts",
    "Template",
    "Words",
    "bidirectional",
    "build",
    "fits",
    "interleaved",
    "line",
    "memory_peaks",
    "pipeline_problem",
    "place",
    "read_shop",
    "shop_of",
    "times",
    "uniform",
    "value_of",
    "wave",
    "words_of",
]
