"""What a sweep found: a problem under many limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milp_plan.core.shown import Shown

if TYPE_CHECKING:
    import pandas

    from milp_plan.study.variants import Point, Sweep


@dataclass(frozen=True, repr=False)
class Variants(Shown):
    """A problem under many limits; shows itself as a table.

    Parameters
    ----------
    problem
        What was varied.
    points
        Each variant with its ``settings``, ``problem``, ``value`` and ``bound``, and in ``found``
        its plan, verdict and why the search stopped; ``found`` is ``None`` for one that was not
        planned.
    front
        Points with a plan that no other beats with at most as much of everything.
    interrupted
        Whether Ctrl-C ended it.
    """

    problem: Any
    points: tuple[Point, ...]
    front: tuple[Point, ...]
    interrupted: bool
    sweep: Sweep

    def __repr__(self) -> str:
        return f"<Variants of {self.problem.name}: {len(self.points)}, {len(self.front)} on front>"

    def to_frame(self) -> pandas.DataFrame:
        """Return a table with a row for each variant; values and bounds are exact."""
        import pandas

        rows = [
            {
                **{name: float(step) for name, step in point.settings.items()},
                "value": point.value,
                "bound": point.bound,
                "proved": point.found is not None and point.found.proved,
                "stop": None if point.found is None else str(point.found.stop),
                "infeasible_because": None
                if point.found is None
                else point.found.infeasible_because,
                "front": point in self.front,
            }
            for point in self.points
        ]
        frame = pandas.DataFrame.from_records(rows)
        for name in ("value", "bound"):  # what is not known stays None, and large ones exact
            frame[name] = pandas.Series([row[name] for row in rows], dtype=object)
        return frame

    def draw(self, path: str | Path | None = None) -> Any:
        """Return the picture of values against what they take; write it where a path is given.

        Raises
        ------
        BackendUnavailableError
            matplotlib is not installed.
        """
        from milp_plan.draw.canvas import write_figure
        from milp_plan.report.variants import sweep_figure

        figure = sweep_figure(self.sweep)
        if path is not None:
            write_figure(figure, Path(path))
        return figure
