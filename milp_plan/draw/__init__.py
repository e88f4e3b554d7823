"""Pictures of plans."""

from .canvas import write_figure
from .figures import panels_figure

__all__ = ["panels_figure", "write_figure"]
