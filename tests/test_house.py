"""Rules of the house that no type and no import says: one way to do a thing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import milp_plan

PACKAGE = Path(milp_plan.__file__).parent
KINDS = (
    "sharding",
    "hybrid",
    "schedule",
    "packing",
    "rematerialisation",
    "resharding",
    "jobs",
    "local-updates",
    "training",
    "serving",
)


def sources(*rooms: str) -> Iterator[tuple[str, str]]:
    """Files of some rooms, or of all, with their texts."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not rooms or name.split("/")[0] in rooms:
            yield name, path.read_text()


def users(pattern: str, *rooms: str) -> set[str]:
    """Files in which a pattern occurs."""
    return {name for name, text in sources(*rooms) if re.search(pattern, text)}


def test_the_patterns_of_this_module_find_something() -> None:
    assert users(r"\bmonotonic\b") == {"core/budget.py"}
    assert "run/ledger.py" in users(r"report\.stop")


def test_there_is_one_clock() -> None:
    assert users(r"\btime\.(monotonic|perf_counter|time|process_time)\b(?!_)") == {"core/budget.py"}


def test_models_answers_are_read_in_one_place() -> None:
    """The ledger alone reads them; others solve again: for confirmation, or with more rows."""
    known = users(r"\bModelAnswer\b|\bsolver\.run\(")
    assert len(known) > 8
    readers = users(r"\banswer\.(report|plan|value|bound|disputed|proves|verdict)\b")
    again = {"run/confirmation.py", "run/model.py"}
    assert readers & known == {"run/ledger.py"} | again


def _imports(name: str, text: str, modules: set[str]) -> Iterator[str]:
    """Modules of the package that a module imports, in functions too; not those for types alone.

    A package and its own modules are one: it imports them, and importing them imports it.
    """
    home = name.split(".")
    inside = name if f"{name}.__init__" in modules else name.rpartition(".")[0]
    tree = ast.parse(text)
    for_types = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and ast.unparse(test.test) == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    for node in ast.walk(tree):
        if id(node) in for_types or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Import):
            named = [entry.name for entry in node.names]
        else:
            base = inside.split(".")[: len(inside.split(".")) + 1 - node.level]
            start = ".".join([*(base if node.level else ()), *filter(None, [node.module])])
            whole = [f"{start}.{entry.name}" for entry in node.names]
            named = [one if {one, f"{one}.__init__"} & modules else start for one in whole]
        for one in named:
            own = one.startswith(f"{name}.") or home[: len(one.split("."))] == one.split(".")
            if {one, f"{one}.__init__"} & modules and not own:
                yield one


def _circles(graph: dict[str, set[str]]) -> set[str]:
    """Modules that are left when those that import nothing that is left go, one after the other."""
    left = {name: set(needs) for name, needs in graph.items()}
    while done := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in done}
    while unused := left.keys() - set().union(*left.values()):
        left = {name: needs for name, needs in left.items() if name not in unused}
    return set(left)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Nor by imports in functions."""
    texts = {f"milp_plan.{name[:-3].replace('/', '.')}": text for name, text in sources()}
    modules = set(texts)
    graph = {
        name.removesuffix(".__init__"): set(_imports(name.removesuffix(".__init__"), text, modules))
        for name, text in texts.items()
    }
    assert sum(map(len, graph.values())) > 2000
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b", "c"}
    assert _circles(graph) == set()


def test_there_is_one_key() -> None:
    assert users(r"def \w*key\w*\([^)]*fingerprint") == {"run/key.py"}


def _remembering(text: str) -> Iterator[str]:
    """Functions and names of a module that keep what they were given for the next call."""
    tree = ast.parse(text)
    for node in ast.walk(tree) if "global " in text else ():
        if isinstance(node, ast.Global):
            yield from node.names
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            marks = " ".join(map(ast.unparse, node.decorator_list))
            reported = (
                ast.unparse(node.args) + " " + ast.unparse(node.returns or ast.Constant(None))
            )
            if re.search(r"\b(lru_)?cache\b", marks) and re.search(
                r"Problem|Graph|Plan\b|Shop", reported
            ):
                yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            made = ast.unparse(node.value)
            empty = made in ("{}", "[]", "None") or re.fullmatch(r"(\w*[dD]ict|list|set)\(\)", made)
            if empty or re.match(r"Weak\w+\(", made):
                yield ast.unparse(node)


def test_no_module_keeps_problems() -> None:
    """Views live with their problem; a worker of a cluster keeps the one it is sent each round."""
    kept = {(name, found) for name, text in sources() for found in _remembering(text)}
    by_other = {
        ("cli/interrupts.py", "_seen: set[int] = set()"),
        ("core/exactness.py", "_KNOWN: dict[type, tuple[_Exact, ...]] = {}"),
        ("core/problem.py", "_FIELDS: dict[type, _Fields | None] = {}"),
        ("models/registry.py", "_isolated: dict[tuple[str, str | None], Found] = {}"),
        # processes, until the next run takes them over: they know loops and no problem
        ("run/compiling.py", "_STARTED_EARLY: list[tuple[frozenset[LoopPart], Compiling]] = []"),
    }
    assert kept == {("kinds/schedule/round.py", "_unpacked")} | by_other


def test_commands_and_studies_know_kinds_and_none_by_name() -> None:
    named = {}
    for name, text in sources("cli", "study"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Compare):
                words = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant)]
                if any(word in KINDS for word in words):
                    named[name] = ast.unparse(node)
    modes = {"cli/capture.py": "graph.mode == 'training'"}  # of a captured graph, no kind
    assert named == modes
    assert users(r"is_sharding|is_hybrid\b", "cli", "study", "run") == set()


def test_modules_are_short() -> None:
    lengths = {name: len(text.splitlines()) for name, text in sources()}
    assert len(lengths) > 700
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_every_study_is_named_with_its_command() -> None:
    root = PACKAGE.parent
    listed = (root / "benchmarks" / "README.md").read_text()
    for head in ("recipe", "spec", "study"):
        for path in root.glob(f"results/**/{head}.toml"):
            folder = path.parent.relative_to(root).as_posix()
            stated = (f"milp-plan table {folder}`", f", `{path.parent.name}`", f"{folder} ")
            assert any(words in listed for words in stated), folder


def test_a_kind_imports_no_other_kind() -> None:
    """Placement and pipeline are parts of the kind schedule, whose plans training replays."""
    family = {"schedule", "placement", "pipeline"}
    allowed = {(one, other) for one in family for other in family}
    allowed |= {("training", "pipeline"), ("serving", "training"), ("local_updates", "schedule")}
    found = set()
    for name, text in sources("kinds"):
        home = name.split("/")[1]
        for other in re.findall(r"milp_plan\.kinds\.(\w+)", text):
            if other != home:
                found.add((home, other))
    assert found - allowed == set()


def test_no_shared_layer_names_a_kind() -> None:
    """But for those that show or study plans of one kind."""
    above = ("kinds", "api.py", "contract.py", "cli", "face", "report", "study", "execute")
    named = {
        (name, other)
        for name, text in sources()
        if name.split("/")[0] not in above
        for other in re.findall(r"milp_plan\.kinds\.(\w+)", text)
    }
    assert named == set()
