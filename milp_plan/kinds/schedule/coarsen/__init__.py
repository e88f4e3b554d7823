"""Stage one: steps that make a problem smaller, each with its way back."""

from .clustering import AcyclicClustering, ChainContraction, ColocationMerging
from .composite import Choice
from .contraction import contract
from .folding import BlockFolding, repeated_blocks
from .guided import GuidedClustering
from .levels import coarsen_levels
from .options import UselessOptions
from .reduction import Coarsening, Reduction, Row, Step
from .stage import DEFAULT_TARGET, coarsen, exact_steps, heuristic_steps
from .symmetry import interchangeable_devices
from .zero_length import ZeroLengthAbsorption

__all__ = [
    "DEFAULT_TARGET",
    "AcyclicClustering",
    "BlockFolding",
    "ChainContraction",
    "Choice",
    "Coarsening",
    "ColocationMerging",
    "GuidedClustering",
    "Reduction",
    "Row",
    "Step",
    "UselessOptions",
    "ZeroLengthAbsorption",
    "coarsen",
    "coarsen_levels",
    "contract",
    "exact_steps",
    "heuristic_steps",
    "interchangeable_devices",
    "repeated_blocks",
]
