"""A figure that a notebook shows without pyplot. Imports matplotlib, so import it late."""

from __future__ import annotations

from io import BytesIO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .style import drawing_style


class Picture(Figure):
    """A figure that a notebook shows as a picture."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        FigureCanvasAgg(self)
        with drawing_style():
            self.savefig(buffer, format="png")
        return buffer.getvalue()
