"""Planning a problem: which way, and what becomes of it."""

from __future__ import annotations

from milp_plan.api import PlanningProblem
from milp_plan.backends import Stop
from milp_plan.bounds import Bound
from milp_plan.core import UnsupportedProblemError
from milp_plan.pipeline import Shop, floors

from .choice import HOSTS, choose
from .graphs import GraphRun
from .ledger import Ledger
from .model import Solver, make_options
from .offload import OffloadRun
from .serial import plan_serial
from .settings import Clock, Outcome, ProgressHook, Settings
from .shops import ShopRun


def solve(
    problem: PlanningProblem, settings: Settings, on_progress: ProgressHook | None = None
) -> Outcome:
    """Plan a problem.

    Ctrl-C at any time ends the run with the best plan so far (``stop`` is ``interrupted``).

    Parameters
    ----------
    problem
        What to plan.
    settings
        How, and for how long.
    on_progress
        Called whenever something is known that was not before.

    Returns
    -------
    Outcome
        With the plan checked on ``problem``, and the best bound on ``problem``.

    Raises
    ------
    FormulationError
        There is no such formulation, or it does not load.
    UnsupportedProblemError
        The formulation is not for this problem; says why.
    InputError
        ``settings.start`` is not a valid plan of this problem, or an option does not exist.
    """
    clock = Clock(settings.time_limit_s)
    shop, found, left = choose(problem, settings.formulation)
    assert found.formulation is not None
    options = make_options(found, settings.options)
    reason = found.formulation.unsupported(problem, options)
    if reason is not None:
        raise UnsupportedProblemError(f"{problem.name}: {found.name} does not apply: {reason}")
    solver = Solver(found.formulation, options, settings.solver)
    run = Ledger(problem, settings, found, solver, on_progress)
    run.clock = clock  # reading the problem counts
    if left:
        run.say("formulation", left)
    try:
        _plan(run, shop)
    except KeyboardInterrupt:
        run.stop = Stop.INTERRUPTED
    while True:
        try:
            return run.outcome()
        except KeyboardInterrupt:  # too late to stop anything: the answer is being written up
            run.stop = Stop.INTERRUPTED


def _plan(ledger: Ledger, shop: Shop | None) -> None:
    """Go the way that suits the problem."""
    if ledger.problem.serial is not None:
        plan_serial(ledger)
    elif shop is not None:
        for floor in floors(shop):
            ledger.raise_bound(Bound(*floor))
        if ledger.settings.start is not None:
            ledger.check_start(ledger.settings.start)
        ShopRun(ledger, shop).stages()
    elif ledger.found.name == HOSTS and not ledger.repeatable:
        OffloadRun(ledger).stages()
    else:
        GraphRun(ledger).stages()
    ledger.close()
