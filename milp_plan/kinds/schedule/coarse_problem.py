"""Rows of a record about coarse problems: the size, the model, and the values of the plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from milp_plan.core.amounts import DASH, seconds_text
from milp_plan.core.gap import relative_gap
from milp_plan.run.kind import Measure
from milp_plan.run.model_answer import ModelAnswer

HEADS = (
    *("coarsening", "clusters", "columns", "rows", "start", "model", "its bound", "windows"),
    *("time", "before", "after"),
)
"""Heads of the table of coarse problems."""


@dataclass(slots=True)
class CoarseProblemRow:
    """One coarse problem that a run planned. Values are ticks or bytes; ``None`` means unknown.

    Parameters
    ----------
    coarsening
        How the clusters were made.
    clusters
        Operators of the coarse problem.
    columns, rows
        Size of the exact model of the coarse problem; ``None`` where it was not built.
    start
        Value of the plan the model started from, on the coarse problem.
    start_accepted
        Whether the solver took it.
    model, bound
        Value of the model's plan and proved bound, on the coarse problem.
    stop
        Why the model's solver stopped.
    windows
        Value after small models near the coarse plan.
    seconds
        Wall-clock seconds from coarsening to expansion.
    before, after
        Value of the best plan of the original problem before this coarse problem and after it.
    """

    coarsening: str
    clusters: int
    columns: int | None = None
    rows: int | None = None
    start: int | None = None
    start_accepted: bool | None = None
    model: int | None = None
    bound: int | None = None
    stop: str | None = None
    windows: int | None = None
    seconds: float = 0.0
    before: int | None = None
    after: int | None = None

    def set_model(self, answer: ModelAnswer) -> None:
        """Copy size, value, bound and stop from a model's answer."""
        model = answer.described()["model"]
        self.columns, self.rows = model["columns"], model["rows"]
        self.model, self.bound = model["value"], model["bound"]
        self.stop, self.start_accepted = model["stop"], model["start_accepted"]

    @property
    def gap(self) -> float | None:
        """Relative gap of the model's plan and bound."""
        return relative_gap(self.model, self.bound)

    @property
    def improved(self) -> bool:
        """Whether the plan of the original problem improved."""
        return self.after is not None and (self.before is None or self.after < self.before)

    def as_row(self) -> dict[str, Any]:
        """Return plain data for the record."""
        return asdict(self) | {"gap": self.gap, "seconds": round(self.seconds, 3)}


def coarse_problem_table(rows: Sequence[dict[str, Any]], measure: Measure) -> list[list[str]]:
    """Return the rows of a record's ``coarse_stages`` as texts, in the order of :data:`HEADS`."""

    def count(number: int | None) -> str:
        return DASH if number is None else f"{number:,}"

    def amount(value: int | None) -> str:
        return DASH if value is None else measure.text(value)

    return [
        [
            row["coarsening"],
            *(count(row[name]) for name in ("clusters", "columns", "rows")),
            *(amount(row[name]) for name in ("start", "model", "bound", "windows")),
            seconds_text(row["seconds"]),
            *(amount(row[name]) for name in ("before", "after")),
        ]
        for row in rows
    ]
