"""A sharding plan of a captured Hugging Face model as its ``tp_plan``: module pattern -> style.

``colwise`` splits the output features of a matrix, ``rowwise`` the input features, after which the
result is summed; ``colwise_rep`` gathers the split result of ``colwise``, and ``embedding_rowwise``
splits the rows of a table. Modules that are not named are whole. The format has one axis only, with
activations whole between the modules or split by features, the same in all layers.
Source: ``transformers``, ``integrations/tensor_parallel.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from milp_plan.core import Finding, InputError
from milp_plan.core.sharding import ShardingPlan, ShardingProblem

from .chosen import PlacementChoice, choices_of, sources_of
from .sharding import INPUT

WEIGHTS = {"mm": 1, "addmm": 2, "embedding": 0}
"""Name of a node, without its number -> position of its weights; activations come before."""

TURNS = ("t", "transpose", "permute")
STYLES = {("R", "S(1)"): "colwise", ("S(1)", "S(0)"): "rowwise", ("R", "R"): ""}
"""Placements of activations and weights, as the product reads them -> style."""


def tp_plan(problem: ShardingProblem, plan: ShardingPlan) -> dict[str, str]:
    """Return the styles of a plan of one axis.

    Parameters
    ----------
    problem
        Problem of a captured graph by :func:`~milp_plan.capture.sharding.sharding`.
    plan
        A valid plan of it.

    Raises
    ------
    InputError
        These styles cannot express the plan; the error names every module in the way.
    """
    if "x" in problem.provenance.get("mesh", ""):
        found, expected = problem.provenance["mesh"], "one axis"
        raise InputError([Finding("mesh", found, expected, "capture it with --sharding 2")])
    findings: list[Finding] = []
    styles: dict[str, dict[str, list[str]]] = {}
    for module, style, finding in _styles(problem, plan):
        if finding is not None:
            findings.append(finding)
        else:
            pattern = re.sub(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.)", "*", module)
            styles.setdefault(pattern, {}).setdefault(style, []).append(module)
    for pattern, found_styles in styles.items():
        if len(found_styles) > 1:
            message = ", ".join(
                f"{names[0]} {style or 'whole'}" for style, names in found_styles.items()
            )
            remedy = "run it as torch-placements, which says it module by module"
            findings.append(Finding(f"modules {pattern!r}", message, "one style for all", remedy))
    if findings:
        raise InputError(findings)
    return {pattern: style for pattern, (style, *_) in styles.items() if style}


def tp_plan_text(problem: ShardingProblem, plan: ShardingPlan) -> bytes:
    """Return the text of the file.

    Raises
    ------
    InputError
        See :func:`tp_plan`.
    """
    return json.dumps(tp_plan(problem, plan), indent=1).encode() + b"\n"


def _styles(
    problem: ShardingProblem, plan: ShardingPlan
) -> Iterator[tuple[str, str, Finding | None]]:
    """Yield module, its style, or the reason why it has none."""
    choices, sources = choices_of(problem, plan), sources_of(problem)
    readers: list[list[int]] = [[] for _ in choices]
    for reader, read in enumerate(sources):
        for source in read:
            readers[source].append(reader)
    for number, name in enumerate(problem.operators):
        if not name.startswith(INPUT) or not name.endswith(".weight"):
            continue
        module = name.removeprefix(INPUT).removesuffix(".weight")
        product = _product(problem, readers, sources, number)
        if product is None:
            if choices[number].kept != "R":
                yield module, "", _finding(module, choices[number], "no product reads it")
            continue
        style = _style(problem.operators[product], choices, product, readers)
        cut = choices[number].kept != "R"
        if style is None or cut != bool(style):
            yield module, "", _finding(module, choices[product], problem.operators[product])
        else:
            yield module, style, None


def _product(
    problem: ShardingProblem, readers: list[list[int]], sources: list[list[int]], number: int
) -> int | None:
    """Return the first product or look-up with a parameter, transposed or not, as its weights."""
    queue, products = [number], list[int]()
    for here in queue:  # grows while it is read
        for reader in readers[here]:
            kind = _kind(problem.operators[reader])
            if kind in TURNS:
                queue.append(reader)
            elif kind in WEIGHTS and sources[reader][WEIGHTS[kind]] == here:
                products.append(reader)
    return min(products, default=None)


def _style(
    name: str, choices: list[PlacementChoice], reader: int, readers: list[list[int]]
) -> str | None:
    choice, kind = choices[reader], _kind(name)
    if kind == "embedding":
        known = {("R", "R"): "", ("S(0)", "R"): "embedding_rowwise"}
        return known.get((choice.reads[0], choice.reads[1]))
    place = WEIGHTS[kind]
    style = STYLES.get((choice.reads[place - 1], choice.reads[place]))
    if style == "colwise" and _gathered(choices, reader, readers):
        return "colwise_rep"
    return style


def _gathered(choices: list[PlacementChoice], number: int, readers: list[list[int]]) -> bool:
    """Return whether the only reader of a split result takes it whole."""
    if choices[number].kept == "R":
        return True
    return len(readers[number]) == 1 and set(choices[readers[number][0]].reads) == {"R"}


def _kind(name: str) -> str:
    return re.sub(r"_\d+$", "", name)


def _finding(module: str, choice: PlacementChoice, reader: str) -> Finding:
    found = f"{', '.join(choice.reads) or choice.kept} ({reader})"
    expected = "weights that are whole, or cut for a product of whole or cut features"
    remedy = "run it as torch-placements, or plan it again"
    return Finding(f"module {module!r}", found, expected, remedy)
