"""Which formulation, and with it which way of planning, suits a problem."""

from __future__ import annotations

from milp_plan.api import PlanningProblem
from milp_plan.formulation.registry import Found, get
from milp_plan.pipeline import OffloadShop, Shop, read_offload, shop_of

from .serial import formulation_of
from .settings import AUTO

GENERAL = "operator_schedule"
"""For every problem."""

SHOP = "pipeline_order"
"""For pipelines of identical micro-batches on given devices."""

HOSTS = "pipeline_offload"
"""For such pipelines whose activations may leave to hosts."""


def choose(problem: PlanningProblem, name: str) -> tuple[Shop | None, Found]:
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
        return None, get(formulation_of(problem.serial) if name == AUTO else name)
    shop = shop_of(problem) if name in (AUTO, SHOP) else None
    if name == AUTO:
        name = GENERAL
        if shop is not None:
            name = SHOP
        elif isinstance(read_offload(problem), OffloadShop):
            name = HOSTS
    return shop, get(name)
