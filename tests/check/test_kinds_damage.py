"""Damage to valid plans of some kinds is caught by the rule it breaks."""

import random
import re
from pathlib import Path

import pytest

import milp_plan
from tests.support.kinds_damage import KINDS, KINDS_DAMAGES, drawn

SEEDS = range(60)

PACKAGE = Path(milp_plan.__file__).parent


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_has_a_damage(kind):
    """As the source of the checker names them, and what every plan says of itself."""
    homes = [f"kinds/{kind}/check.py", "check/statement.py"]
    if kind in ("training", "serving"):
        homes.append("kinds/training/rules.py")
    source = "".join((PACKAGE / name).read_text() for name in homes)
    rules = set(re.findall(r'Violation\(\s*"([\w ]+)"', source))
    assert len(rules) > 4
    assert {rule for of, rule, _ in KINDS_DAMAGES.values() if of == kind} == rules


@pytest.mark.parametrize("name", KINDS_DAMAGES)
def test_damage_is_caught_by_its_rule_alone(name):
    kind, rule, damage = KINDS_DAMAGES[name]
    done = 0
    for seed in SEEDS:
        found = drawn(kind, seed)
        made = None if found is None else damage(*found, random.Random(f"{name} {seed}"))
        if made is not None:
            verdict = KINDS[kind][1](*made)
            assert {violation.rule for violation in verdict.violations} == {rule}, seed
            done += 1
    assert done >= 8, f"{name} was done to {done} plans only"
