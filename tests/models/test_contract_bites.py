"""The contract finds what it is there to find: each defect fails the test named beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
import pytest

from milp_plan.api import Card, Scale
from milp_plan.cli import templates
from milp_plan.contract import FormulationContract
from milp_plan.core import FormulationError

from .solving import formulation

RESOURCE_LOAD = formulation("resource_load")
Sound = type(RESOURCE_LOAD)


class Wasteful(Sound):
    def scale(self, *args: Any) -> Scale:
        return replace(super().scale(*args), unit=2.0 * super().scale(*args).unit)


class Mute(Sound):
    def encode(self, *args: Any) -> None:
        return None


class Picky(Sound):
    def unsupported(self, *args: Any) -> str:
        return "not today"


class Eager(Sound):
    def unsupported(self, *args: Any) -> None:
        return None


class Amnesiac(Sound):
    def decode(self, *args: Any) -> Any:
        return replace(super().decode(*args), transfers=())


class Rough(Sound):
    def encode(self, *args: Any) -> Any:
        values = super().encode(*args)
        values["bottleneck"][None] /= 2
        return values


class Restless(Sound):
    ticket = count()

    def build(self, *args: Any) -> Any:
        m = super().build(*args)
        m.chance = pyo.Var(bounds=(0, next(self.ticket)))
        m.noise = pyo.Constraint(expr=m.chance >= 0.0 * m.bottleneck)
        m.objective.expr = m.objective.expr + 0.0 * m.chance
        return m


class Spendthrift(Sound):
    def build(self, *args: Any) -> Any:
        m = super().build(*args)
        m.memory.deactivate()
        return m


class Hasty(Sound):
    def build(self, *args: Any) -> Any:
        m = super().build(*args)
        if args[2].bound is not None:
            m.bottleneck.setlb(m.bottleneck.lb + 1)
        return m


class Nameless(Sound):
    card = Card("", "", "", RESOURCE_LOAD.card.objectives, exact=True)


@dataclass(frozen=True)
class Silent:
    switch: bool = True


class Curt(Sound):
    Options = Silent


class Liar(Sound):
    """Leaves out every plan but those that put everything on one device, and does not say so."""

    def build(self, *args: Any) -> Any:
        m = super().build(*args)
        m.alone = pyo.Var(args[0].cluster.device_names, domain=pyo.Binary)
        m.one = pyo.Constraint(expr=sum(m.alone.values()) == 1)
        m.there = pyo.ConstraintList()
        for (_, place), column in m.place.items():
            for device in args[0].cluster.device_names:
                if device not in place.partition(" on ")[2].split("+"):
                    m.there.add(column + m.alone[device] <= 1)
        return m


@dataclass(frozen=True)
class Narrow:
    narrow: bool = field(default=False, metadata={"help": "everything on one device"})


class Sly(Liar):
    """Leaves out plans only where a switch says so, and does not say that the switch does."""

    Options = Narrow

    def build(self, *args: Any) -> Any:
        return super().build(*args) if args[1].narrow else Sound.build(self, *args)


class Denier(Sound):
    """Claims that there is no plan at all."""

    def build(self, *args: Any) -> Any:
        m = super().build(*args)
        m.denied = pyo.Constraint(expr=m.bottleneck <= -1)
        return m


class Honest(Liar):
    """Leaves out the same, and says so."""

    card = replace(RESOURCE_LOAD.card, exact=False)

    def restricts(self, *args: Any) -> bool:
        return True


class Contrary(Sound):
    def restricts(self, *args: Any) -> bool:
        return True


def contract(kind: type) -> FormulationContract:
    """Return the contract of a formulation that no file defines."""

    class Contract(FormulationContract):
        formulation = kind(RESOURCE_LOAD.builder)
        seeds = range(4)

    return Contract()


DEFECTS: list[tuple[type, Callable[[FormulationContract], None]]] = [
    (Wasteful, FormulationContract.test_relaxation_optimum_and_plans_are_in_order),
    (Mute, FormulationContract.test_plans_become_starts_and_plans_again),
    (Rough, FormulationContract.test_plans_become_starts_and_plans_again),
    (Picky, FormulationContract.test_supports_planted_instances),
    (Eager, FormulationContract.test_refuses_in_words),
    (Amnesiac, FormulationContract.test_relaxation_optimum_and_plans_are_in_order),
    (Restless, FormulationContract.test_repeats_itself),
    (Spendthrift, FormulationContract.test_nothing_fits_into_no_memory),
    (Hasty, FormulationContract.test_guides_keep_the_optimum),
    (Nameless, FormulationContract.test_card_and_options_say_what_they_are),
    (Curt, FormulationContract.test_card_and_options_say_what_they_are),
    (Contrary, FormulationContract.test_card_and_options_say_what_they_are),
    (Liar, FormulationContract.test_restricts_is_true),
    (Sly, FormulationContract.test_restricts_is_true),
    (Denier, FormulationContract.test_restricts_is_true),
]


@pytest.mark.parametrize(
    ("kind", "test"), DEFECTS, ids=[f"{kind.__name__}-{test.__name__}" for kind, test in DEFECTS]
)
def test_a_defect_is_found(kind: type, test: Callable[[FormulationContract], None]) -> None:
    test(contract(Sound))
    with pytest.raises(AssertionError):
        test(contract(kind))


def test_a_restriction_that_says_so_is_no_liar() -> None:
    contract(Honest).test_restricts_is_true()


def test_the_file_that_users_start_from_is_caught_when_it_lies(tmp_path: Path) -> None:
    file = tmp_path / "single.py"
    text = templates.source("single").replace("exact=False", "exact=True")
    assert text.count("surrogate=True") == text.count(" + data.delay[o, k, a, b]") == 1
    text = text.replace("surrogate=True", "surrogate=False")
    file.write_text(text.replace(" + data.delay[o, k, a, b]", " + 0"))

    class Contract(FormulationContract):
        reference = str(file)
        limited = False

    with pytest.raises(AssertionError, match="the solver says"):
        Contract().test_relaxation_optimum_and_plans_are_in_order()


def test_a_restriction_keeps_the_contract(tmp_path: Path) -> None:
    """What ``new formulation`` writes: not exact, with an objective of its own."""
    file = tmp_path / "single.py"
    file.write_text(templates.source("single"))

    class Contract(FormulationContract):
        reference = str(file)
        limited = False

    made = Contract()
    tests = [name for name in dir(FormulationContract) if name.startswith("test_")]
    assert len(tests) == 10
    for name in tests:
        getattr(made, name)()


def test_another_kind_without_planted_problems_is_refused_with_a_remedy() -> None:
    class Packing(FormulationContract):
        reference = "packing_order"

    with pytest.raises(FormulationError, match=r"PackingProblem; override planted"):
        next(Packing().instances())
