"""Jobs that name models: options from plans of their steps."""

import re
from fractions import Fraction

import pytest

from milp_plan import zoo
from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.io.files import read_document
from milp_plan.kinds.jobs.format import to_toml
from milp_plan.kinds.jobs.trainings import expanded
from milp_plan.run.kinds import kind_of, read
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from tests.cli.cases import call

HEAD = """format = "milp-plan-jobs"
version = 1
name = "models"
time_unit = "s"
[[pools]]
name = "gpu"
devices = 2
device = "A100"
"""
SMALL = 'zoo = "gpt-tiny", batch = 4, granularity = "block"'
LIMIT = Settings(time_limit_s=60, gap=0.5, threads=1)


def file_of(folder, model, head=HEAD):
    path = folder / "models.toml"
    path.write_text(f'{head}[[jobs]]\nname = "a"\nepochs = 2\nmini_batches = 3\n{model}\n')
    return path


def expand(path, settings=LIMIT):
    steps = []
    problem = expanded(read_document(path, ""), settings, steps.append)
    return problem, steps


def test_options_are_plans_of_steps(tmp_path):
    path = file_of(tmp_path, f"model = {{ {SMALL} }}")
    problem, steps = expand(path)
    tried = [(step.technique, step.devices) for step in steps]
    assert tried == [("single", 1), ("pipeline", 2), ("sharded", 2)]
    (unit,) = problem.jobs[0].units
    assert [(o.technique, o.devices) for o in unit.options] == tried
    for option, step in zip(unit.options, steps, strict=True):
        assert Fraction(option.ticks, problem.units.time_scale) == Fraction(6 * step.value, 10**9)
        assert option.bytes == step.memory > 0
        known = problem.provenance[f"a: {step.technique} on {step.devices} of gpu"]
        assert known.startswith(f"{step.value} ns")
    alone = zoo.generate("gpt-tiny", "1xA100", batch=4, granularity="block")
    assert steps[0].value == solve(alone, LIMIT).value
    written = tmp_path / "plain.toml"
    written.write_bytes(to_toml(problem))
    assert read(written)[1].fingerprint == problem.fingerprint


def test_instance_on_its_first_devices(tmp_path):
    step = zoo.generate("gpt-tiny", "2xA100", batch=4, granularity="block")
    write = next(entry.write for entry in kind_of(step).formats() if entry.write is not None)
    (tmp_path / "step.json").write_bytes(write(step))
    path = file_of(tmp_path, 'model = { instance = "step.json", devices = [1, 2] }')
    problem, steps = expand(path)
    assert [(s.technique, s.devices) for s in steps] == [("placed", 1), ("placed", 2)]
    alone = zoo.generate("gpt-tiny", "1xA100", batch=4, granularity="block")
    assert steps[0].value == solve(alone, LIMIT).value
    assert len(problem.jobs[0].units[0].options) == 2


def test_a_model_without_a_plan_is_reported(tmp_path):
    huge = 'model = { zoo = "gpt2-xl", batch = 64, granularity = "block", devices = [1] }'
    with pytest.raises(InputError, match=r"jobs\[0\]\.model.*single on 1"):
        expand(file_of(tmp_path, huge))


MODEL = 'model = { zoo = "vgg16" }'
DEFECTS = [
    ("jobs[0].model: found neither", "model = { batch = 4 }", HEAD),
    ("jobs[0].model: found both", 'model = { zoo = "vgg16", instance = "a.json" }', HEAD),
    ("jobs[0].model.pool: found 'x'", 'model = { zoo = "vgg16", pool = "x" }', HEAD),
    ("pools: found no device", MODEL, HEAD.replace('device = "A100"', "")),
    ("time_unit: found 'h'", MODEL, HEAD.replace('"s"', '"h"')),
    ("options and model", f'{MODEL}\noptions = [{{ technique = "t", time = 1 }}]', HEAD),
    ("architecture: found 'no-such'", 'model = { zoo = "no-such" }', HEAD),
]


@pytest.mark.parametrize(("told", "model", "head"), DEFECTS)
def test_defects(told, model, head, tmp_path):
    with pytest.raises(InputError, match=re.escape(told)):
        expand(file_of(tmp_path, model, head=head))


def test_command_expands_and_says_what_it_is_for(tmp_path):
    path, out = file_of(tmp_path, f"model = {{ {SMALL}, devices = [1] }}"), tmp_path / "out.toml"
    refused = call("solve", path, "--quiet", "--record-folder", tmp_path)
    assert refused.exit_code == Exit.BAD_INPUT
    assert "milp-plan expand" in refused.stderr
    done = call("expand", path, out, "--time-limit", "20")
    assert (done.exit_code, done.stdout) == (Exit.DONE, f"{out}: models, 1 jobs, 1 options\n")
    assert "a: single on 1 of gpu" in done.stderr
