"""Pipelines: templates and placements unrolled into problems, and problems read as job shops."""

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
    "Deadlock",
    "Journey",
    "Kind",
    "Shop",
    "Stage",
    "Starts",
    "Template",
    "Words",
    "bidirectional",
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
