"""Less memory for a given plan: what is made again, what waits on a host, and when."""

from .balanced import Near, balanced
from .fitting import Fitting, fit
from .layout import AGAIN, AWAY, Base
from .merged import merged_plan
from .unrolled import Unrolled

__all__ = ["AGAIN", "AWAY", "Base", "Fitting", "Near", "Unrolled", "balanced", "fit", "merged_plan"]
