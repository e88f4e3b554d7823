"""Which formulation, and with it which way of planning, suits a problem."""

from __future__ import annotations

from typing import NamedTuple

from milp_plan.api import PlanningProblem
from milp_plan.models.registry import Found, get
from milp_plan.pipeline import Shop, read_offload, shop_of

from .serial import formulation_of
from .settings import AUTO

GENERAL = "operator_schedule"
"""For every problem whose plans have a schedule."""

LOADS = "resource_load"
"""For problems whose plans have none."""

SHOP = "pipeline_order"
"""For pipelines of identical micro-batches on given devices."""

HOSTS = "pipeline_offload"
"""For such pipelines whose activations may leave to hosts."""


class Choice(NamedTuple):
    """The shop to plan, where it is one; the formulation; why a more special one was left."""

    shop: Shop | None
    found: Found
    left: str = ""


def choose(problem: PlanningProblem, name: str) -> Choice:
    """Return the formulation asked for, or the one that suits, and the shop it plans.

    Parameters
    ----------
    problem
        What to plan.
    name
        Name of a formulation, path to one, or :data:`~.settings.AUTO`.

    Raises
    ------
    FormulationError
        There is no such formulation, or it does not load.
    """
    if problem.serial is not None:
        return Choice(None, get(formulation_of(problem.serial) if name == AUTO else name))
    shop = shop_of(problem) if name in (AUTO, SHOP) else None
    if name != AUTO:
        return Choice(shop, get(name))
    if shop is None:
        return Choice(None, _general(problem))
    special = get(SHOP)
    assert special.formulation is not None
    why = special.formulation.unsupported(problem, special.formulation.Options())
    if why is None:
        return Choice(shop, special)
    general = _general(problem)
    return Choice(None, general, f"{general.name}, as {SHOP} does not apply: {why}")


def _general(problem: PlanningProblem) -> Found:
    """Return the formulation for problems without a special form."""
    if not problem.needs_schedule:
        return get(LOADS)
    return get(HOSTS if has_hosts(problem) else GENERAL)


def has_hosts(problem: PlanningProblem) -> bool:
    """Whether activations of a pipeline may leave to hosts, and the formulation for it applies.

    A problem of which nothing may leave has the same form, without any choice of place; that alone
    does not make it a pipeline.
    """
    found = read_offload(problem)
    if isinstance(found, str) or not found.holds:
        return False
    special = get(HOSTS).formulation
    return special is not None and special.unsupported(problem, special.Options()) is None
