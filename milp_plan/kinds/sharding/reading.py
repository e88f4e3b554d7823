"""Reads the labelling that a sharding model is about."""

from __future__ import annotations

from milp_plan.core import UnsupportedProblemError
from milp_plan.core.sharding import ShardingProblem

from .labelling import Labelling

MAX_COLUMNS = 20_000_000
"""Largest number of columns of a model that fits into the memory of an ordinary machine."""


def read_labelling(problem: object, fewer_rows: bool = True) -> Labelling | str:
    """Return the labelling of a sharding problem, or the given labelling.

    Parameters
    ----------
    problem
        A sharding problem, or a labelling: a reduced one.
    fewer_rows
        Whether to leave out memory rows of instants that another instant implies.

    Returns
    -------
    Labelling or str
        The labelling, or the reason in words why it is neither, or too large.
    """
    if not isinstance(problem, ShardingProblem | Labelling):
        return "it is not a sharding problem: there are no tables of strategies to choose from"
    # loaded here: they bring compiled loops, which other formulations need not wait for
    from .coarsen.instants import with_fewer_rows
    from .coarsen.reading import labelling_of

    try:
        labelling = labelling_of(problem) if isinstance(problem, ShardingProblem) else problem
    except UnsupportedProblemError as error:
        return str(error)
    columns = len(labelling.cost) + int(labelling.allowed[1].sum())
    if columns > MAX_COLUMNS:
        return f"the model would have {columns:,} columns, more than {MAX_COLUMNS:,}"
    return with_fewer_rows(labelling) if fewer_rows else labelling
