"""Pipelines: templates and placements unrolled into problems, and problems read as job shops."""

from .bounds import Floor, floors
from .case import (
    CUT,
    FREE,
    Built,
    Case,
    Grid,
    Share,
    build,
    built,
    cut_lines,
    cut_text,
    grid,
    stages_of,
)
from .cuts import Cuts
from .model import Cut, Model, Number, Piece, most_even
from .placement import FAMILIES, bidirectional, interleaved, line, place, wave
from .reading import read_shop, shop_of
from .shop import TRANSFER, Journey, Kind, Shop
from .span import best_times
from .template import BACKWARD, FORWARD, JOINT, WEIGHT, Stage, Template, pipeline_problem, uniform
from .timing import Deadlock, Starts, Words, fits, memory_peaks, times, value_of, words_of

__all__ = [
    "BACKWARD",
    "CUT",
    "FAMILIES",
    "FORWARD",
    "FREE",
    "JOINT",
    "TRANSFER",
    "WEIGHT",
    "Built",
    "Case",
    "Cut",
    "Cuts",
    "Deadlock",
    "Floor",
    "Grid",
    "Journey",
    "Kind",
    "Model",
    "Number",
    "Piece",
    "Share",
    "Shop",
    "Stage",
    "Starts",
    "Template",
    "Words",
    "best_times",
    "bidirectional",
    "build",
    "built",
    "cut_lines",
    "cut_text",
    "fits",
    "floors",
    "grid",
    "interleaved",
    "line",
    "memory_peaks",
    "most_even",
    "pipeline_problem",
    "place",
    "read_shop",
    "shop_of",
    "stages_of",
    "times",
    "uniform",
    "value_of",
    "wave",
    "words_of",
]
