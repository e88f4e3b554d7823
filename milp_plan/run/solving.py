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
from .settings import AUTO, UNUSED_REASONS, IncumbentHook, ProgressHook, Settings
from .strategy import Strategy

LOADING_SHARE = 0.5
"""Maximum share of the time limit for loading a foreign formulation, and for its answer whether
it supports the problem."""


NO_STRATEGY = "none yet"
"""Name in the record of a run that ended before its strategy was chosen."""

LEEWAY_S = 1.0
"""Seconds after the time limit at which steps that do not check it themselves are stopped."""

DEFAULTS = Settings()
"""Default settings."""


class Choice(NamedTuple):
    """A strategy and the formulation of its models.

    Parameters
    ----------
    strategy, solver
        The strategy and its formulation, if it uses one.
    skipped
        Why more special strategies do not apply, in words.
    failure
        How the formulation failed already, in words; the strategy goes on without it.
    """

    strategy: type[Strategy[Any, Any]]
    solver: FormulationSolver | None
    skipped: str = ""
    failure: str = ""

    def unused(self, problem: Any, settings: Settings) -> dict[str, str]:
        """Return the settings that would do nothing, each with the reason."""
        why = self.strategy.unused(problem, settings, self.solver)
        if "only" in why and self.skipped:
            why["only"] = self.skipped
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
        The problem, of any kind.
    settings
        Time limit, seed, formulation and so on.
    on_progress
        Called with every new plan, bound or phase.
    began
        When the time limit began to count (:data:`milp_plan.core.budget.now`); now by default.
    on_incumbent
        Called with every plan that is better than all before it, once the checker accepted it.
    derived
        Whether the problem is a variant or a part of the one that the settings were made for:
        then settings that would do nothing for it are ignored, not refused.
    solver
        A loaded formulation, in place of the one that ``settings.formulation`` names.

    Returns
    -------
    Outcome
        The plan, checked on ``problem``, and the best bound on ``problem``.

    Raises
    ------
    BackendUnavailableError
        The solver is not installed, or there is no scheduler at ``settings.dask``.
    FormulationError
        There is no such formulation.
    UnsupportedProblemError
        The formulation does not support this problem; the message says why.
    UnusedOptionError
        A setting would do nothing for this problem; the message says why.
    InputError
        ``settings.start`` names parts that the problem does not have, or an option is unknown.
    """
    settings = settings or Settings()
    kind = kind_of(problem)
    budget = Budget(settings.time_limit_s, settings.node_limit, began=began)
    if derived:
        settings = _reset_to_default(settings, kind.ignores)
    _refuse_ignored(kind, problem, settings)
    ledger: Ledger[Any, Any] = Ledger(
        kind, problem, settings, budget, report=on_progress, on_incumbent=on_incumbent
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
            ledger.close()
            return outcome_of(ledger)
        except KeyboardInterrupt:  # nothing is left to stop: write the outcome
            ledger.stop = Stop.INTERRUPTED


def _plan(ledger: Ledger[Any, Any], *, derived: bool, solver: FormulationSolver | None) -> None:
    """Choose a strategy and run it; the ledger has the results, also after an interruption."""
    kind, problem, settings = ledger.kind, ledger.problem, ledger.settings
    backend(settings.solver)  # fail now if it is missing, even if no model will be solved
    if not ledger.look_for_places():
        return
    choice = choose(kind, problem, settings, solver)
    unused = choice.unused(problem, settings)
    if derived:
        ledger.settings = settings = _reset_to_default(settings, unused)
    _refuse(problem, settings, unused)
    ledger.set_solver(choice.solver)
    ledger.details["strategy"] = choice.strategy.name
    ledger.say("start", choice.skipped)
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
        One of them does not have its default value.
    """
    _refuse_ignored(kind, problem, settings)
    _refuse(problem, settings, choose(kind, problem, settings).unused(problem, settings))


def _refuse_ignored(kind: Kind[Any, Any], problem: Any, settings: Settings) -> None:
    """Refuse settings that no strategy of a kind uses, before any formulation is loaded."""
    if any(getattr(settings, name) != getattr(DEFAULTS, name) for name in UNUSED_REASONS):
        why = {name: f"{UNUSED_REASONS[name]} for a {kind.name} problem" for name in kind.ignores}
        _refuse(problem, settings, why)


def _refuse(problem: Any, settings: Settings, why: Mapping[str, str]) -> None:
    """Refuse settings that were set and would do nothing, each with the reason."""
    name_one = "name a formulation, or leave it out"
    remedies = {} if "formulation" in why else {"only": name_one, "options": name_one}
    findings = [
        unused_option(
            name, _shown(getattr(settings, name)), why[name], remedies.get(name, "leave it out")
        )
        for name in why
        if getattr(settings, name) != getattr(DEFAULTS, name)
        and not (name == "rounds" and settings.rounds == 0)  # zero rounds are what is done
    ]
    if findings:
        raise UnusedOptionError(findings).in_file(problem.name)


def _reset_to_default(settings: Settings, names: Iterable[str]) -> Settings:
    """Return settings with the default values of the named ones."""
    return replace(settings, **{name: getattr(DEFAULTS, name) for name in names})


def _shown(value: Any) -> str:
    """Return the value of a setting as text; plans by their type."""
    plain = isinstance(value, str | int | float | Mapping)
    return repr(value) if plain else f"a {type(value).__name__}"


def choose(
    kind: Kind[Any, Any], problem: Any, settings: Settings, loaded: FormulationSolver | None = None
) -> Choice:
    """Return the first strategy that applies, with the named formulation or its own.

    Raises
    ------
    FormulationError
        There is no such formulation.
    UnsupportedProblemError
        The named formulation does not support this problem; the message says why.
    """
    loading_s = LOADING_SHARE * settings.time_limit_s
    named = _named(settings, loading_s) if loaded is None else loaded.found
    skipped: list[str] = []
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
        formulation = named
        if (
            named is None
            and own is not None
            and not settings.options
            and strategy.formulation_always_applies(problem)
        ):
            return Choice(strategy, LazySolver(shipped(own), settings.solver), "; ".join(skipped))
        if named is None:
            formulation = None if own is None else get(own)
        elif strategy.own_formulation and named.name != own:
            continue
        if formulation is None:
            return Choice(strategy, None, "; ".join(skipped))
        solver = loaded or FormulationSolver(
            formulation, make_options(formulation, settings.options), settings.solver
        )
        try:
            reason = solver.unsupported(problem, loading_s)
        except FormulationFailureError as error:
            if not solver.isolated:  # an isolated one does not answer any more calls
                raise
            return Choice(strategy, solver, "; ".join(skipped), str(error))
        if reason is None:
            return Choice(strategy, solver, "; ".join(skipped))
        text = f"{formulation.name} does not apply: {reason}"
        if named is not None:
            raise UnsupportedProblemError(f"{problem.name}: {text}")
        skipped.append(text)
        if not strategy.own_formulation:
            return Choice(strategy, None, "; ".join(skipped))
    raise UnsupportedProblemError(f"{problem.name}: no strategy applies: {'; '.join(skipped)}")


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
