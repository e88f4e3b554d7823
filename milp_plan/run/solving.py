"""Plans a problem of any kind: chooses the strategy and runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from milp_plan.backends import Stop
from milp_plan.core import (
    FormulationError,
    FormulationFailureError,
    UnsupportedProblemError,
    UnusedOptionError,
    unused_option,
)
from milp_plan.core.budget import Budget, TimeIsUp, alarm
from milp_plan.models.registry import Found, find, get, shipped

from .kind import Kind
from .kinds import kind_of
from .ledger import Ledger
from .model import FormulationSolver, LazySolver, backend, make_options
from .outcome import Outcome
from .record import outcome_of
from .settings import AUTO, WHY_UNUSED, IncumbentHook, ProgressHook, Settings
from .strategy import Strategy

LOADING_SHARE = 0.5
"""Part of the time limit that loading a formulation that is not ours, or its first look at the
problem, may take."""


NO_STRATEGY = "none yet"
"""Name in the record of a run that ended before its strategy was chosen."""

LEEWAY_S = 1.0
"""Seconds after the limit at which steps are ended that do not check it themselves."""

DEFAULTS = Settings()
"""Default settings."""


class Choice(NamedTuple):
    """A strategy, the formulation of its models, and why more special ones do not apply.

    ``failure`` says how the formulation failed already; the strategy goes on without it.
    """

    strategy: type[Strategy[Any, Any]]
    solver: FormulationSolver | None
    left: str = ""
    failure: str = ""

    def unused(self, problem: Any, settings: Settings) -> dict[str, str]:
        """Return the settings that would do nothing, each with the reason."""
        why = self.strategy.unused(problem, settings, self.solver)
        if "only" in why and self.left:
            why["only"] = self.left
        return why


def solve(
    problem: Any,
    settings: Settings | None = None,
    on_progress: ProgressHook | None = None,
    *,
    began: float | None = None,
    on_incumbent: IncumbentHook | None = None,
    derived: bool = False,
    solver: FormulationSolver | None = None,
) -> Outcome[Any, Any]:
    """Plan a problem.

    Ctrl-C at any time ends the run with the best plan so far (``stop`` is ``interrupted``).

    Parameters
    ----------
    problem
        What to plan, of any kind.
    settings
        How, and for how long.
    on_progress
        Called whenever something is known that was not before.
    began
        When the time limit began to count (:data:`milp_plan.core.budget.now`); now, unless given.
    on_incumbent
        Called with every plan that is better than all before it, once the checker accepted it.
    derived
        The problem was made from the one that the settings were given for, a variant of it or a
        part: settings that would do nothing for it are left out, not refused.
    solver
        The formulation, loaded, in place of the one that ``settings.formulation`` names.

    Returns
    -------
    Outcome
        With the plan checked on ``problem``, and the best bound on ``problem``.

    Raises
    ------
    BackendUnavailableError
        The solver is not installed, or there is no scheduler at ``settings.dask``.
    FormulationError
        There is no such formulation.
    UnsupportedProblemError
        The formulation is not for this problem; says why.
    UnusedOptionError
        A setting would do nothing for this problem; says why.
    InputError
        ``settings.start`` names what the problem does not have, or an option does not exist.
    """
    settings = settings or Settings()
    kind = kind_of(problem)
    budget = Budget(settings.time_limit_s, settings.node_limit, began=began)
    if derived:
        settings = _without(settings, kind.ignores)
    _refuse_ignored(kind, problem, settings)
    ledger: Ledger[Any, Any] = Ledger(
        *(kind, problem, settings, budget), report=on_progress, on_incumbent=on_incumbent
    )
    ledger.details["strategy"] = NO_STRATEGY
    try:
        _plan(ledger, derived=derived, solver=solver)
    except KeyboardInterrupt:
        ledger.stop = Stop.INTERRUPTED
    except TimeIsUp:
        ledger.stop = Stop.TIME_LIMIT
    finally:
        if ledger.cluster is not None:
            ledger.cluster.close(timeout=LEEWAY_S)
    while True:
        try:
            return outcome_of(ledger)
        except KeyboardInterrupt:  # too late to stop anything: the answer is being written up
            ledger.stop = Stop.INTERRUPTED


def _plan(ledger: Ledger[Any, Any], *, derived: bool, solver: FormulationSolver | None) -> None:
    """Choose a strategy and run it; the ledger has the results, also after an interruption."""
    kind, problem, settings = ledger.kind, ledger.problem, ledger.settings
    backend(settings.solver)  # say so now: heuristics may leave nothing for it to do
    if not ledger.look_for_places():
        return
    choice = choose(kind, problem, settings, solver)
    unused = choice.unused(problem, settings)
    if derived:
        ledger.settings = settings = _without(settings, unused)
    _refuse(problem, settings, unused)
    ledger.ask(choice.solver)
    ledger.details["strategy"] = choice.strategy.name
    ledger.say("start", choice.left)
    if choice.failure:
        ledger.fail(choice.failure)
        ledger.say("start", choice.failure)
    ledger.check_start()
    if settings.dask is not None:
        from .dask import client_at

        ledger.cluster = client_at(settings.dask)
    with alarm(ledger.budget.left_s + LEEWAY_S):
        strategy = choice.strategy(ledger)
        strategy.run_steps()
        if settings.only:
            strategy.test_claims()


def refuse_unused(kind: Kind[Any, Any], problem: Any, settings: Settings) -> None:
    """Refuse settings that would do nothing for a problem.

    Raises
    ------
    UnusedOptionError
        One of them is not what it is unless somebody sets it.
    """
    _refuse_ignored(kind, problem, settings)
    _refuse(problem, settings, choose(kind, problem, settings).unused(problem, settings))


def _refuse_ignored(kind: Kind[Any, Any], problem: Any, settings: Settings) -> None:
    """Refuse settings that no strategy of a kind uses: before any formulation is looked for."""
    if any(getattr(settings, name) != getattr(DEFAULTS, name) for name in WHY_UNUSED):
        why = {name: f"{WHY_UNUSED[name]} for a {kind.name} problem" for name in kind.ignores}
        _refuse(problem, settings, why)


def _refuse(problem: Any, settings: Settings, why: Mapping[str, str]) -> None:
    """Refuse settings that somebody set and that would do nothing, each with the reason."""
    named = "name a formulation, or leave it out"
    remedies = {} if "formulation" in why else {"only": named, "options": named}
    findings = [
        unused_option(
            name, _shown(getattr(settings, name)), why[name], remedies.get(name, "leave it out")
        )
        for name in why
        if getattr(settings, name) != getattr(DEFAULTS, name)
        and not (name == "rounds" and settings.rounds == 0)  # none are wanted, and there are none
    ]
    if findings:
        raise UnusedOptionError(findings).in_file(problem.name)


def _without(settings: Settings, why: Iterable[str]) -> Settings:
    """Return settings with some as they are unless somebody sets them."""
    return replace(settings, **{name: getattr(DEFAULTS, name) for name in why})


def _shown(value: Any) -> str:
    """Return a setting as text; plans by their type."""
    plain = isinstance(value, str | int | float | Mapping)
    return repr(value) if plain else f"a {type(value).__name__}"


def choose(
    kind: Kind[Any, Any], problem: Any, settings: Settings, given: FormulationSolver | None = None
) -> Choice:
    """Return the first strategy that applies, with the named formulation or its own.

    Raises
    ------
    FormulationError
        There is no such formulation.
    UnsupportedProblemError
        The formulation that was named is not for this problem; says why.
    """
    loading_s = LOADING_SHARE * settings.time_limit_s
    named = _named(settings, loading_s) if given is None else given.found
    left: list[str] = []
    repeatable = settings.node_limit is not None
    strategies = [
        strategy
        for strategy in kind.strategies_for(problem)
        if strategy.why_not(problem, repeatable) is None
    ]
    if settings.two_stage:
        strategies = [
            strategy for strategy in strategies if "two_stage" in strategy.uses
        ] or strategies
    for strategy in strategies:
        own = strategy.formulation_for(problem)
        found = named
        if (
            named is None
            and own is not None
            and not settings.options
            and strategy.formulation_always_applies(problem)
        ):
            return Choice(strategy, LazySolver(shipped(own), settings.solver), "; ".join(left))
        if named is None:
            found = None if own is None else get(own)
        elif strategy.own_formulation and named.name != own:
            continue
        if found is None:
            return Choice(strategy, None, "; ".join(left))
        solver = given or FormulationSolver(
            found, make_options(found, settings.options), settings.solver
        )
        try:
            reason = solver.unsupported(problem, loading_s)
        except FormulationFailureError as error:
            if not solver.isolated:  # else it answers nothing any more
                raise
            return Choice(strategy, solver, "; ".join(left), str(error))
        if reason is None:
            return Choice(strategy, solver, "; ".join(left))
        if named is not None:
            raise UnsupportedProblemError(f"{problem.name}: {found.name} does not apply: {reason}")
        left.append(f"{found.name} does not apply: {reason}")
        if not strategy.own_formulation:
            return Choice(strategy, None, "; ".join(left))
    raise UnsupportedProblemError(f"{problem.name}: no strategy applies: {'; '.join(left)}")


def _named(settings: Settings, limit_s: float) -> Found | None:
    """Return the formulation that the settings name.

    Raises
    ------
    FormulationError
        There is none, or nothing else is to be asked and it does not load.
    """
    if settings.formulation == AUTO:
        return None
    found = find(settings.formulation, limit_s)
    if settings.only and found.error is not None:
        raise FormulationError(found.error)
    return found
