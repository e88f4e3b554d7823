"""``export`` says how much memory a model would take before it takes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.cli.model_memory import (
    BYTES_PER_COEFFICIENT,
    GIB,
    at_most,
    estimate,
    refuse_large,
)
from milp_plan.core import UnsupportedProblemError
from milp_plan.kinds.rematerialisation.problem import Computation, RematerialisationProblem
from milp_plan.kinds.schedule.formats import read
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.models.validated import compile_source
from milp_plan.run.model import FormulationSolver, make_options
from tests.support.sharding import layered

from .cases import INSTANCES, call

LARGE = INSTANCES / "gpt2-xl-training-16xA100.json.gz"
PEAK = """
import resource
from milp_plan.cli.model_memory import estimate
from milp_plan.kinds.schedule.coarsen import coarsen
from milp_plan.io import read
from milp_plan.models.registry import get
from milp_plan.run.model import FormulationSolver, make_options
from milp_plan.api import Guide
from milp_plan.models.validated import compile_source
from milp_plan.models.registry import get
from milp_plan.run.model import FormulationSolver, make_options
problem = coarsen(read({file!r}), {target}).problem
solver = FormulationSolver(get({name!r}), make_options(get({name!r}), {{}}))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
compile_source(solver.formulation.build(problem, solver.options, Guide()))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(1024 * (after - before), estimate(problem, solver))
"""
MIDDLE = INSTANCES / "unet-training-4xA100.json"
SMALL = INSTANCES / "two-tower-tiny-inference-2xH100.json"


@pytest.mark.parametrize(
    ("file", "limit", "said"),
    [
        pytest.param(LARGE, "24GiB", "24.0 GiB", marks=pytest.mark.slow, id="gpt2-xl"),
        pytest.param(MIDDLE, "0.2GiB", "0.2 GiB", id="unet"),
    ],
)
def test_a_model_that_takes_all_memory_is_refused(
    file: Path, limit: str, said: str, tmp_path: Path
) -> None:
    output = tmp_path / "model.mps"
    words = ("--format", "mps", "--output", output, "--model-memory", limit)
    result = call("export", file, *words)
    assert result.exit_code == Exit.BAD_INPUT
    assert f"{said} are allowed" in result.stderr
    assert "--target" in result.stderr
    assert not output.exists()


def test_small_models_are_written(tmp_path: Path) -> None:
    output = tmp_path / "model.mps"
    words = ("--format", "mps", "--output", output, "--model-memory", "4GiB")
    assert call("export", SMALL, *words).exit_code == Exit.DONE
    assert output.is_file()


def solver_of(name: str) -> FormulationSolver:
    return FormulationSolver(get(name), make_options(get(name), {}))


def peak(name: str, file: Path, target: int) -> tuple[int, int]:
    """Bytes that building takes in a process of its own, and what is estimated."""
    text = PEAK.format(name=name, file=str(file), target=target)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    found, wanted = map(int, done.stdout.split())
    return found, wanted


@pytest.mark.slow
@pytest.mark.parametrize("target", [80, 1000])
def test_estimates_are_near_what_is_taken(target: int) -> None:
    found, wanted = peak("operator_schedule", MIDDLE, target)
    assert found / 3 < wanted < 3 * found


def test_what_is_small_or_unknown_has_no_estimate() -> None:
    assert estimate(read(SMALL), solver_of("operator_schedule")) is None
    assert estimate(read(LARGE), solver_of("resource_load")) is None


@pytest.mark.parametrize("layers", [50, 200])
def test_models_of_other_kinds_are_estimated_from_some_of_their_parts(layers: int) -> None:
    problem, solver = layered(0, layers, width=2), solver_of("sharding")
    wanted = estimate(problem, solver)
    model = compile_source(solver.formulation.build(problem, solver.options, Guide()))
    taken = BYTES_PER_COEFFICIENT * (model.matrix.nnz + model.num_columns)
    assert wanted is not None
    assert taken / 3 < wanted < 3 * taken
    with pytest.raises(UnsupportedProblemError, match=r"are allowed; make the problem smaller"):
        refuse_large(problem, solver, wanted - 1)
    assert refuse_large(problem, solver, wanted) == wanted


def training(layers: int) -> RematerialisationProblem:
    """A chain forward and backward: what the first operators make is read by the last ones."""
    names = [f"f{layer}" for layer in range(layers)]
    every = [Computation(name, 1, 1, tuple(names[at - 1 : at])) for at, name in enumerate(names)]
    before = names[-1]
    for layer in reversed(range(layers)):
        read = sorted({before, names[layer]})
        every.append(Computation(f"b{layer}", 2, 1, tuple(read)))
        before = f"b{layer}"
    return RematerialisationProblem("training", tuple(every), layers // 2)


@pytest.mark.parametrize("name", ["remat_staged", "remat_retention", "remat_backbone"])
def test_models_of_rematerialisation_are_estimated(name: str) -> None:
    problem, solver = training(40), solver_of(name)
    wanted = estimate(problem, solver)
    model = compile_source(solver.formulation.build(problem, solver.options, Guide()))
    taken = BYTES_PER_COEFFICIENT * (model.matrix.nnz + model.num_columns)
    assert wanted is not None
    assert taken / 3 < wanted < 3 * taken


def test_a_limit_is_a_limit() -> None:
    refused = pytest.raises(UnsupportedProblemError, match=r"more than the 0\.1 GiB allowed")
    with refused, at_most("large", GIB // 8):
        bytearray(GIB)
    bytearray(GIB // 4)


def test_a_size_that_is_none_is_refused(tmp_path: Path) -> None:
    words = ("--format", "mps", "--output", tmp_path / "m.mps", "--model-memory", "much")
    result = call("export", SMALL, *words)
    assert result.exit_code == Exit.USAGE
    assert "much" in result.stderr
