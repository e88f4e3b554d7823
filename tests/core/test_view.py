"""What is kept with a problem; and that nobody keeps it elsewhere."""

from __future__ import annotations

import ast
import copy
import pickle
import threading
from pathlib import Path

import milp_plan
from milp_plan.core.view import kept, view
from tests.check.cases import problem

made: list[object] = []
"""What :func:`reading` was asked for."""


@view
def reading(owner: object) -> list[int]:
    """Something that takes long to read."""
    made.append(owner)
    return [len(made)]


def test_a_view_is_made_once_per_problem_and_not_per_equal_problem() -> None:
    one, other = problem("a"), problem("a")
    assert one == other
    assert reading(one) is reading(one)
    assert reading(other) is not reading(one)
    assert kept(one, "key", lambda: 7) == kept(one, "key", lambda: 8) == 7


def test_views_stay_at_home() -> None:
    one = problem("a b")
    first = reading(one)
    for away in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert away == one
        assert away.fingerprint == one.fingerprint
        assert reading(away) is not first


def test_an_error_is_not_kept() -> None:
    one = problem("a")

    def fail() -> int:
        raise ArithmeticError

    for make, expected in ((fail, None), (lambda: 3, 3)):
        try:
            found = kept(one, "once", make)
        except ArithmeticError:
            found = None
        assert found == expected


def test_threads_make_it_once() -> None:
    one, count = problem("a"), []

    def make() -> int:
        count.append(1)
        return len(count)

    threads = [threading.Thread(target=lambda: kept(one, "slow", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1


def test_no_module_keeps_problems_of_its_own() -> None:
    """A container made empty at the top of a module and filled by its functions is a cache."""
    package = Path(milp_plan.__file__).parent
    known = {
        "core/exactness.py: _KNOWN",
        "core/problem.py: _FIELDS",
        "cli/interrupts.py: _seen",
        "models/registry.py: _isolated",
    }
    """Of types, of signals, and of formulation files with their processes."""
    found = set()
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            value = node.value
            empty = isinstance(value, ast.Dict) and not value.keys
            empty |= isinstance(value, ast.List) and not value.elts
            called = isinstance(value, ast.Call) and not value.args and not value.keywords
            named = isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
            containers = {"dict", "list", "set", "OrderedDict", "WeakKeyDictionary"}
            empty |= called and named and value.func.id in containers
            if empty:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                found.add(f"{path.relative_to(package)}: {ast.unparse(target)}")
    assert found == known
