"""What is asked of every formulation, as tests to inherit.

::

    class TestMine(FormulationContract):
        reference = "mine"          # or a path to a .py file

Run with pytest. The instances are planted (:mod:`.planted`): each has a plan, so no test passes by
finding nothing to check. Models are solved with the HiGHS that comes with scipy, another build than
the backend's; override :meth:`FormulationContract.solve` to hold the contract with another solver,
and :meth:`FormulationContract.optimum` where an oracle knows the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from milp_plan.check import verify
from milp_plan.core import PLAIN_OBJECTIVES, FormulationError, Plan, PlanningProblem, Verdict
from milp_plan.kinds.schedule.model.planted import planted_with_plan
from milp_plan.lp import CompiledModel
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models.protocol import Formulation, Guide, Neighbourhood, Scale
from milp_plan.models.registry import get, is_path, load

Made = TypeVar("Made")

TOLERANCE = 1e-6

MOST_WITNESSED = 6
"""Operators of a problem, at most, whose best plan is looked for elsewhere."""

WITNESSES = ("operator_schedule", "resource_load")
"""Formulations whose plans, once the checker has accepted them, the bounds of others must admit."""


FAILED = 4
"""Status of scipy's solver that says nothing about the model."""


class Solved(NamedTuple):
    """What a reference solve gave; ``objective`` and ``vector`` are ``None`` without a solution."""

    objective: float | None
    vector: NDArray[np.float64] | None
    infeasible: bool


class Instance(NamedTuple):
    """A planted problem, a valid plan of it, and that plan's value in ticks or bytes."""

    problem: PlanningProblem
    plan: Plan
    value: int


class FormulationContract:
    """Tests that every formulation inherits.

    Attributes
    ----------
    reference
        Name of the formulation, or path to its file.
    seeds
        Planted instances to try, for each objective of the card.
    least
        How many of them it must support, at least.
    limited
        Whether devices of planted instances have memory limits.
    """

    reference: str
    seeds: range = range(8)
    least: int = 2
    limited: bool = True
    _kept: ClassVar[dict[tuple[type, str, str], Any]] = {}

    # -- what a subclass may replace ---------------------------------------------------------

    def make_options(self) -> Any:
        """Return the options to test with: the defaults."""
        return self.formulation.Options()

    def planted(self, seed: int, objective: Any) -> tuple[PlanningProblem, Plan]:
        """Return a tiny instance and a valid plan of it: any graph, on two or three devices.

        Raises
        ------
        FormulationError
            The formulation is for other problems: ``planted`` has to be overridden.
        """
        handled = self.formulation.handles
        if not issubclass(PlanningProblem, handled):
            ask = "override planted(seed, objective): return one and a valid plan of it"
            others = "and verdict and without_memory, which are for placement as well"
            said = f"{self.reference} is for problems of the class {handled.__name__}"
            raise FormulationError(f"{said}; {ask}, {others}")
        problem, plan = planted_with_plan(seed, objective)
        if self.limited:
            return problem, plan
        free: dict[str, int | None] = dict.fromkeys(problem.cluster.device_names)
        problem = replace(problem, cluster=problem.cluster.with_memory(free))
        return problem, replace(plan, fingerprint=problem.fingerprint)

    def verdict(self, problem: Any, plan: Any) -> Verdict:
        """Hold a plan against its problem: the checker."""
        return verify(problem, plan)

    def without_memory(self, problem: Any) -> Any:
        """Return the problem without any memory to use."""
        none: dict[str, int | None] = dict.fromkeys(problem.cluster.device_names, 0)
        return replace(problem, cluster=problem.cluster.with_memory(none))

    def optimum(self, problem: PlanningProblem) -> int | None:  # noqa: ARG002
        """Return the optimum, in ticks or bytes, as an oracle knows it; ``None`` without one."""
        return None

    def solve(self, model: CompiledModel, node_limit: int | None = None) -> Solved:
        """Solve a model to the end, or until the node limit."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        if model.num_columns == 0:
            fits = model.violation(np.zeros(0))[0] <= TOLERANCE
            return Solved(model.offset, np.zeros(0), False) if fits else Solved(None, None, True)
        for presolve in (True, False):  # scipy's presolve ends now and then with an error
            answer = milp(
                model.cost,
                integrality=model.integrality,
                bounds=Bounds(model.column_lower, model.column_upper),
                constraints=LinearConstraint(model.matrix, model.row_lower, model.row_upper),
                options={
                    "mip_rel_gap": 1e-9,
                    "node_limit": node_limit or 1_000_000_000,
                    "presolve": presolve,
                },
            )
            if answer.status != FAILED:
                break
        if answer.x is None:
            return Solved(None, None, infeasible=answer.status == 2)
        return Solved(float(answer.fun) + model.offset, np.asarray(answer.x), infeasible=False)

    def variants(self) -> list[Any]:
        """Return options to hold ``restricts`` against: each changed, one by one."""
        kind, hints = self.formulation.Options, get_type_hints(self.formulation.Options)
        found = [self.make_options()]
        for entry in fields(kind):
            others = get_args(hints[entry.name]) if get_origin(hints[entry.name]) else ()
            if hints[entry.name] is bool:
                others = (True, False)
            found += [replace(found[0], **{entry.name: other}) for other in others]
        return [options for place, options in enumerate(found) if options not in found[:place]]

    def unconstrained(self, problem: Any) -> Any:
        """Return the problem where nothing hinders: much memory, fast links; ``None`` without one.

        In what is planted limits bind and transfers are long, so a model that leaves out plans may
        well keep the best ones.
        """
        if not isinstance(problem, PlanningProblem):
            return None
        free: dict[str, int | None] = dict.fromkeys(problem.cluster.device_names)
        cluster = problem.cluster.with_memory(free)
        links = [replace(c, latency_ticks=0, bandwidth_bytes_per_s=2**60) for c in cluster.channels]
        return replace(problem, cluster=replace(cluster, channels=tuple(links)))

    def witness(self, problem: Any) -> int | None:
        """Return the value of a valid plan found elsewhere, the lower the better.

        By default that of the plan that the shipped formulation of all such problems finds, where
        it takes moments.
        """
        for name in WITNESSES:
            found = get(name).formulation
            if found is None or not isinstance(problem, PlanningProblem):
                continue
            if len(problem.graph.operators) > MOST_WITNESSED:
                continue
            options = found.Options()
            if found.unsupported(problem, options) is None:
                guide = Guide()
                compiled = compile_pyomo(found.build(problem, options, guide))
                vector = self.solve(compiled).vector
                assert vector is not None
                plan = found.decode(problem, options, guide, compiled.name_values(vector))
                verdict = self.verdict(problem, plan)
                return verdict.value if verdict.ok else None
        return None

    # -- material ----------------------------------------------------------------------------

    @cached_property
    def formulation(self) -> Formulation[Any, Any]:
        """The formulation under test."""
        path = is_path(self.reference)
        found = load(Path(self.reference)) if path else get(self.reference)
        assert found.formulation is not None, found.error
        return found.formulation

    @property
    def surrogate(self) -> bool:
        """Whether values of the model are not those of the problem."""
        return self.formulation.card.surrogate

    @property
    def relaxes(self) -> bool:
        """Whether plans of the model may break a law, or be worse than it says."""
        return self.formulation.card.relaxes

    def instances(self) -> Iterator[Instance]:
        """Yield the planted instances that the formulation supports."""
        options = self.make_options()
        for objective in self.formulation.card.objectives:
            for seed in self.seeds:
                problem, plan = self.planted(seed, objective)
                if self.formulation.unsupported(problem, options) is None:
                    verdict = self.verdict(problem, plan)
                    assert verdict.ok, f"planted plan of {problem.name}: {verdict.violations}"
                    assert verdict.value is not None
                    yield Instance(problem, plan, verdict.value)

    def compiled(
        self, problem: PlanningProblem, guide: Guide | None = None
    ) -> tuple[Any, CompiledModel, Scale]:
        """Return the model as built, as a matrix, and its scale; without a guide built once."""
        if guide is not None:
            return self._build(problem, guide, self.make_options())
        options = self.make_options()
        return self._once("model", problem, lambda: self._build(problem, Guide(), options))

    def _once(self, what: str, problem: Any, make: Callable[[], Made]) -> Made:
        """Make what several tests of a class ask about a problem, and keep it."""
        key = (type(self), what, problem.fingerprint)
        if key not in self._kept:
            self._kept[key] = make()
        made: Made = self._kept[key]
        return made

    def _answer(self, problem: Any) -> Solved:
        """Solve the model of a problem as it is, to the end."""
        return self._once("answer", problem, lambda: self.solve(self.compiled(problem)[1]))

    def _known_optimum(self, problem: Any) -> int | None:
        return self._once("optimum", problem, lambda: self.optimum(problem))

    def _build(
        self, problem: PlanningProblem, guide: Guide, options: Any
    ) -> tuple[Any, CompiledModel, Scale]:
        source = self.formulation.build(problem, options, guide)
        model = source if isinstance(source, CompiledModel) else compile_pyomo(source)
        return source, model, self.formulation.scale(problem, options, guide)

    def decoded(
        self,
        problem: PlanningProblem,
        model: CompiledModel,
        vector: NDArray[np.float64],
        guide: Guide | None = None,
    ) -> tuple[Plan, int]:
        """Return the plan of a solution and its value; the checker must accept it.

        Unless the model relaxes the problem: then the value is what the model says.
        """
        values = model.name_values(vector)
        options, guide = self.make_options(), guide or Guide()
        plan: Any = self.formulation.decode(problem, options, guide, values)
        if self.relaxes:
            claim = float(model.cost @ vector + model.offset)
            return plan, round(claim * self.formulation.scale(problem, options, guide).unit)
        assert plan is not None, f"{problem.name}: the solution stands for no plan"
        verdict = self.verdict(problem, plan)
        assert verdict.ok, f"{problem.name}: {'; '.join(map(str, verdict.violations))}"
        assert verdict.value is not None
        return plan, verdict.value

    def best(self, problem: PlanningProblem, guide: Guide | None = None) -> tuple[Plan, int]:
        """Return the plan that the model's optimum stands for; checker and solver must agree."""
        if guide is not None:
            return self._solved(problem, guide)
        return self._once("plan", problem, lambda: self._solved(problem, None))

    def _solved(self, problem: PlanningProblem, guide: Guide | None) -> tuple[Plan, int]:
        _, model, scale = self.compiled(problem, guide)
        answer = self._answer(problem) if guide is None else self.solve(model)
        assert answer.vector is not None, f"{problem.name}: no solution"
        assert answer.objective is not None
        plan, value = self.decoded(problem, model, answer.vector, guide)
        if self.surrogate:
            return plan, value
        claim = answer.objective * scale.unit
        room = _room(scale, claim)
        assert claim - scale.slack * scale.unit - room <= value <= claim + room, (
            f"{problem.name}: the plan's value is {value}, the solver says {claim}"
        )
        return plan, value

    # -- the contract ------------------------------------------------------------------------

    def test_card_and_options_say_what_they_are(self) -> None:
        """The card is filled in, and every option has a default and a line of help."""
        card, kind = self.formulation.card, self.formulation.Options
        assert card.name
        assert card.title
        assert card.source
        assert card.objectives
        assert is_dataclass(kind), "Options is a dataclass"
        entries = fields(kind)
        silent = [entry.name for entry in entries if not entry.metadata.get("help")]
        assert not silent, f"options without help: {silent}"
        assert kind() == kind(), "each option has a default"
        assert isinstance(self.formulation.handles, type), "handles is a class of problems"
        restricts = self.formulation.restricts(self.make_options())
        assert not (card.exact and restricts), "what restricts by default is not exact"
        assert not (card.exact and (card.surrogate or card.relaxes)), "another optimum is not exact"
        assert not (card.surrogate and card.relaxes), "another objective has no bounds"

    def test_supports_planted_instances(self) -> None:
        """It supports enough of the instances for the other tests to mean something."""
        assert sum(1 for _ in self.instances()) >= self.least

    def test_refuses_in_words(self) -> None:
        """A problem that is not for it is refused with a reason."""
        options, card = self.make_options(), self.formulation.card
        for objective in PLAIN_OBJECTIVES:
            for seed in self.seeds:
                problem, _ = planted_with_plan(seed, objective)
                if not isinstance(problem, self.formulation.handles):
                    continue  # nobody asks it about problems of another kind
                reason = self.formulation.unsupported(problem, options)
                if objective not in card.objectives:
                    assert reason, (
                        f"{objective} is not on the card, and unsupported() gives no reason"
                    )
                assert reason is None or reason.strip()

    def test_plans_become_starts_and_plans_again(self) -> None:
        """A plan becomes a vector that satisfies the model, and from there a plan no worse."""
        encoded = 0
        for problem, plan, value in self.instances():
            source, model, scale = self.compiled(problem)
            vector = self.start(problem, source, model, plan)
            if vector is None:
                continue
            encoded += 1
            if self.surrogate:
                self.decoded(problem, model, vector)  # what the checker accepts, of any value
                continue
            claim = float(model.cost @ vector + model.offset) * scale.unit
            slack = scale.slack * scale.unit
            if self.relaxes:
                assert claim <= value + slack + _room(scale, claim), f"{problem.name}: {claim}"
                continue
            assert value - _room(scale, claim) <= claim <= value + slack + _room(scale, claim), (
                f"{problem.name}: a plan of value {value} becomes a start of value {claim}"
            )
            again, reached = self.decoded(problem, model, vector)
            assert reached <= value
            second = self.start(problem, source, model, again)
            assert second is not None
            assert self.decoded(problem, model, second)[1] == reached
        assert encoded or not self.formulation.card.exact

    def test_relaxation_optimum_and_plans_are_in_order(self) -> None:
        """Relaxation, optimum and plans are in order; checker, solver and oracle agree."""
        exact = self.formulation.card.exact
        for problem, _, planted in self.instances():
            source, model, scale = self.compiled(problem)
            relaxed = self.solve(model.relaxed())
            plan, value = self.best(problem)
            assert relaxed.objective is not None
            low = (relaxed.objective - scale.slack) * scale.unit
            assert self.surrogate or low <= value + _room(scale, low), (
                f"{problem.name}: relaxation above optimum"
            )
            if exact:
                assert value <= planted, f"{problem.name}: {value} is worse than planted {planted}"
            known = self._known_optimum(problem)
            if known is not None:
                fits = value == known if exact else value <= known if self.relaxes else None
                assert value >= known if fits is None else fits, f"{problem.name}: not {known}"
            if self.relaxes:
                continue  # its own plan may hold too much
            vector = self.start(problem, source, model, plan)
            assert vector is not None, f"{problem.name}: its own plan is no start"
            again = self.decoded(problem, model, vector)[1]
            assert self.surrogate or again == value

    def test_restricts_is_true(self) -> None:
        """Unless it says that it leaves out plans, no model excludes what a valid plan reaches."""
        honest = [one for one in self.variants() if not self.formulation.restricts(one)]
        for planted in self.instances() if honest else ():
            self._admits(planted.problem, honest, planted.value)
            unconstrained = self.unconstrained(planted.problem)
            if unconstrained is not None:
                self._admits(unconstrained, honest, None)

    def _admits(self, problem: Any, variants: list[Any], known: int | None) -> None:
        """No model of a problem excludes the best value that is known."""
        fits = [one for one in variants if self.formulation.unsupported(problem, one) is None]
        least = self._known_optimum(problem) if fits else None
        least = self.witness(problem) if fits and least is None else least
        values = [value for value in (least, known) if value is not None]
        for options in fits if values else ():
            usual = options == self.make_options()
            built = self.compiled(problem) if usual else self._build(problem, Guide(), options)
            _, compiled, scale = built
            answer = self._answer(problem) if usual else self.solve(compiled)
            where = f"{problem.name}, {options}: a plan of value {min(values)} exists"
            assert not answer.infeasible, f"{where}, the model has no solution"
            assert answer.objective is not None
            low = (answer.objective - scale.slack) * scale.unit
            assert low <= min(values) + _room(scale, low), f"{where}, the model claims {low}"

    def test_guides_keep_the_optimum(self) -> None:
        """Knowing a plan's value or a bound does not change the optimum."""
        for problem, _, _ in self.instances():
            _, value = self.best(problem)
            for guide in (Guide(cutoff=value), Guide(bound=value)):
                assert self.best(problem, guide)[1] == value, f"{problem.name}: {guide}"

    def test_nothing_fits_into_no_memory(self) -> None:
        """Where no device has memory, the model has no solution."""
        if not self.formulation.card.exact:
            return
        options = self.make_options()
        for problem, _, _ in self.instances():
            empty = self.without_memory(problem)
            if self.formulation.unsupported(empty, options) is None:
                _, model, _ = self.compiled(empty)
                assert self.solve(model).infeasible, f"{problem.name}: a plan without memory"

    def test_repeats_itself(self) -> None:
        """Two builds are equal in every number; two solves with a node limit give one plan."""
        for problem, _, _ in self.instances():
            plans, hashes = [], []
            again = self._build(problem, Guide(), self.make_options())
            for _, model, _ in (self.compiled(problem), again):
                hashes.append(model.content_hash)
                vector = self.solve(model, node_limit=20).vector
                plans.append(None if vector is None else self.decoded(problem, model, vector))
            assert hashes[0] == hashes[1], f"{problem.name}: two builds differ"
            assert plans[0] == plans[1], f"{problem.name}: two solves differ"

    def test_neighbourhoods_hold_the_plan(self) -> None:
        """With all operators free nothing is lost; with none free placements stay."""
        if not self.formulation.card.neighbourhoods:
            return
        for problem, plan, planted in self.instances():
            _, optimum = self.best(problem)
            for free in (frozenset[str](), frozenset(problem.graph.topological_order)):
                guide = Guide(cutoff=planted, neighbourhood=Neighbourhood(plan, free))
                source, model, _ = self.compiled(problem, guide)
                assert self.start(problem, source, model, plan) is not None
                found, value = self.best(problem, guide)
                assert optimum <= value <= planted
                kept = {run.operator: run.placement for run in plan.runs}
                if free:
                    assert value == optimum, f"{problem.name}: all free, yet not the optimum"
                else:
                    assert kept == {run.operator: run.placement for run in found.runs}

    def start(
        self, problem: PlanningProblem, source: Any, model: CompiledModel, plan: Plan
    ) -> NDArray[np.float64] | None:
        """Return a plan as a vector that satisfies the model; ``None`` only from inexact ones."""
        values = self.formulation.encode(problem, self.make_options(), source, plan)
        if values is None:
            assert not self.formulation.card.exact, f"{problem.name}: a valid plan is no start"
            return None
        vector = model.vector(values)
        amount, where = model.violation(vector)
        assert amount <= TOLERANCE, f"{problem.name}: the start breaks {where} by {amount}"
        return vector


def _room(scale: Scale, amount: float) -> float:
    """How far a solver's value may lie from the exact one, in ticks or bytes."""
    return TOLERANCE * max(abs(amount), scale.unit) * 10
