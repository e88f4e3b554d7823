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
from .holds import Held, Hold, OffloadShop, Step, Trips, read_offload
from .model import Cut, Model, Number, Piece, most_even
from .offload import HOLD, HOST, Lanes, chain_problem, offload_problem, with_lanes
from .placement import FAMILIES, bidirectional, interleaved, line, place, wave
from .precedence import Precedence, longest_paths
from .reading import read_shop, shop_of
from .residence import residence_bound
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
    "HOLD",
    "HOST",
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
    "Held",
    "Hold",
    "Journey",
    "Kind",
    "Lanes",
    "Model",
    "Number",
    "OffloadShop",
    "Piece",
    "Precedence",
    "Share",
    "Shop",
    "Stage",
    "Starts",
    "Step",
    "Template",
    "Trips",
    "Words",
    "best_times",
    "bidirectional",
    "build",
    "built",
    "chain_problem",
    "cut_lines",
    "cut_text",
    "fits",
    "floors",
    "grid",
    "interleaved",
    "line",
    "longest_paths",
    "memory_peaks",
    "most_even",
    "offload_problem",
    "pipeline_problem",
    "place",
    "read_offload",
    "read_shop",
    "residence_bound",
    "shop_of",
    "stages_of",
    "times",
    "uniform",
    "value_of",
    "wave",
    "with_lanes",
    "words_of",
]
