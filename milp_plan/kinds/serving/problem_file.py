"""Serving problems as JSON; described in ``instances/formats/serving.md``."""

from __future__ import annotations

from typing import Literal

from milp_plan.core import InputError
from milp_plan.io.files import Document
from milp_plan.io.wire import Positive, decode, encode
from milp_plan.kinds.training.configuration import Precision
from milp_plan.kinds.training.efficiency import shipped
from milp_plan.kinds.training.problem_file import WireJob, WireModel, job_arguments, job_members

from .api import default_reserve, serving_problem
from .problem import Objective, Phase, ServingProblem

MARKER = "milp-plan-serving"


class WireServing(WireJob, kw_only=True):
    """A model, a cluster, the size of a request, limits on times."""

    format: Literal["milp-plan-serving"]
    model: str | WireModel
    prompt: Positive
    output: Positive = 1
    objective: Objective = Objective.LATENCY
    phase: Phase = Phase.BOTH
    requests: Positive | None = None
    precision: Precision = Precision.BF16
    cache_precision: Precision = Precision.BF16
    first_token_ns: Positive | None = None
    token_ns: Positive | None = None


OWN = WireServing.__struct_fields__[len(WireJob.__struct_fields__) :]
"""Members that files of other kinds do not have."""


def read(document: Document) -> ServingProblem:
    """Read a problem.

    Raises
    ------
    InputError
        With every defect of the file.
    """
    given = decode(document.data, WireServing, document.file, MARKER)
    try:
        return serving_problem(**job_arguments(given), **{n: getattr(given, n) for n in OWN})
    except InputError as error:
        raise error.in_file(document.file) from None


def to_json(problem: ServingProblem) -> bytes:
    """Return a problem as JSON text; equal problems give equal bytes.

    Raises
    ------
    UnsupportedProblemError
        Its cluster is not what its name says.
    """
    members = job_members(problem, default_reserve(problem.cluster), shipped())
    own = {name: getattr(problem, name) for name in OWN}
    return encode(WireServing(format="milp-plan-serving", **members, **own))
