"""Suites as TOML: what is read, what is refused, what is absent."""

from dataclasses import replace

import pytest

from milp_plan.core import InputError, Objective
from milp_plan.core.sharding import sharding_problem
from milp_plan.io.suite_file import above, read_suite
from milp_plan.kinds.sharding.iopddl import to_json
from milp_plan.study.driver import drive
from milp_plan.study.rows import rows_of
from milp_plan.study.store import Store
from milp_plan.study.tasks import expand
from milp_plan.zoo import SHIPPED, TRAPS, generate
from milp_plan.zoo.catalogue import ARCHITECTURES
from tests.io.samples import store as store_document
from tests.io.test_piper import sample

from .cases import INSTANCES, REUSED, TINY, Here, expansion, suite_file


def test_suites_of_the_repository_are_read():
    found = {path.stem: read_suite(path) for path in (INSTANCES / "suites").glob("*.toml")}
    assert {"shipped", "traps", "dnn-partitioning"} <= set(found)
    assert len(found["traps"].entries) == 12
    assert not any(entry.absent for entry in found["traps"].entries)
    assert [who.formulation for who in found["traps"].content.planners] == ["auto"]


def test_patterns_name_each_file_once_and_absent_files_stay(tmp_path):
    files = ("two-*.json", "two-sends-one-port.json", "nothing-*.json")
    suite = read_suite(suite_file(tmp_path, files=files))
    labels = [entry.label for entry in suite.entries]
    assert labels.count("two-sends-one-port.json") == 1
    assert len(labels) == 1 + len(list(INSTANCES.glob("two-*.json")))
    assert [bool(entry.absent) for entry in suite.entries] == [False] * (len(labels) - 1) + [True]
    assert not suite.entries[-1].optional


def test_files_below_a_variable_may_be_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
    text = '[[instances]]\nfiles = ["a.json"]\nvariable = "SOME_FOLDER"\nremedy = "get it"\n'
    *_, last = read_suite(suite_file(tmp_path, text)).entries
    assert last.optional
    assert last.absent == "not in the folder that SOME_FOLDER names; get it"
    missing = expand(read_suite(suite_file(tmp_path, text))).missing
    assert [(entry.label, entry.harmless) for entry in missing] == [("a.json", True)]


RECIPE = """
[[recipes]]
name = "made"
architecture = "gpt-tiny"
cluster = "2xV100"
mode = "inference"
granularity = "block"
batch = 4
"""


def test_recipes_are_instances(tmp_path):
    (tmp_path / "made.toml").write_text('title = "Made"\n' + RECIPE)
    found = expand(read_suite(tmp_path / "made.toml"))
    (task,) = found.tasks
    assert not found.missing
    assert (task.about["file"], task.about["instance"]) == ("made.json", "made")
    same = generate("gpt-tiny", "2xV100", mode="inference", granularity="block", batch=4)
    assert task.about["operators"] == len(same.graph.operators)
    assert task.source.fingerprint == replace(same, name="made").fingerprint
    wrong = 'title = "Made"\n' + RECIPE.replace("gpt-tiny", "gpt-none")
    (tmp_path / "made.toml").write_text(wrong)
    (missing,) = expand(read_suite(tmp_path / "made.toml")).missing
    assert "gpt-none" in missing.reason
    assert not missing.harmless
    (tmp_path / "made.toml").write_text('title = "Made"\n' + 2 * RECIPE)
    with pytest.raises(InputError, match="2 entries of the name 'made'"):
        read_suite(tmp_path / "made.toml")


def test_generated_training_graphs_are_all_architectures():
    suite = read_suite(INSTANCES / "suites" / "training-graphs.toml")
    recipes = [entry.recipe for entry in suite.entries]
    assert len(recipes) == 30
    assert {recipe.communication for recipe in recipes} == {None, "endpoint", "delay"}
    later = {"alexnet", "vgg16"}  # came after the suite's results
    assert {recipe.architecture for recipe in recipes} == set(ARCHITECTURES) - later
    assert sum(recipe.memory_scale != "1" for recipe in recipes) == 8
    assert sum("+" in recipe.cluster for recipe in recipes) >= 6


def test_a_folder_is_looked_for_upwards(tmp_path):
    (tmp_path / "there").mkdir()
    low = tmp_path / "a" / "b" / "suite.toml"
    assert above(low, "there") == tmp_path / "there"
    assert above(low, "nowhere at all") == low.parent / "nowhere at all"


def test_every_defect_is_named(tmp_path):
    text = """
[[variations]]
name = "a"
memory_scale = "-1"
calls = 2
[[variations]]
name = "a"
objective = "makespan"
contiguous = true
[[planners]]
name = "x"
planner = "heft"
formulation = "max_load"
variations = ["b"]
"""
    with pytest.raises(InputError) as caught:
        read_suite(suite_file(tmp_path, text))
    said = str(caught.value)
    for part in (
        "2 entries of the name 'a'",
        "variations[0].memory_scale",
        "variations[0], calls",
        "variations[1], contiguous",
        "planners[0].variations",
        "found both",
    ):
        assert part in said
    assert len(caught.value.findings) == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits]\ntime = 0\n", "limits.time"),
        ("[limits]\ntime = inf\n", "limits.time"),
        ('file = "x"\n', "did you mean 'files'?"),
        ("seeds = []\n", "seeds"),
    ],
)
def test_schema_defects(text, said, tmp_path):
    head = text if text.startswith(("file", "seeds")) else ""
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        read_suite(suite_file(tmp_path, "" if head else text, head=head))


def test_planners_that_do_not_exist_are_refused_together(tmp_path):
    text = """
[[planners]]
name = "a"
planner = "hetf"
[[planners]]
name = "b"
formulation = "no such one"
[[planners]]
name = "c"
formulation = "operator_schedule"
options = { nonsense = 1 }
"""
    with pytest.raises(InputError) as caught:
        expansion(tmp_path, text)
    assert len(caught.value.findings) == 3
    assert "did you mean 'heft'?" in str(caught.value)
    assert "nonsense" in str(caught.value)


def test_runs_are_a_product(tmp_path):
    text = """
[[variations]]
name = ""
[[variations]]
name = "small"
memory_scale = "9/10"
only = ["gang*"]
[[variations]]
name = "memory"
objective = "peak_memory"
[[planners]]
name = "heft"
planner = "heft"
time = 3
[[planners]]
name = "again"
planner = "heft"
time = 3
[[planners]]
name = "slow"
planner = "iterated_greedy"
variations = ["memory"]
"""
    found = expansion(tmp_path, text, head="seeds = [0, 1]")
    assert not found.missing
    cases = {(task.about["instance"], task.about["variation"]) for task in found.tasks}
    assert len(cases) == 3 + 1 + 3
    assert len(found.tasks) == 2 * (2 * (3 + 1 + 3) + 3)
    keys = {task.key for task in found.tasks}  # "again" asks the same as "heft", and
    assert len(keys) == 2 * (3 + 3 + 3)  # nothing changes by scaling memory without limit
    memory = [task for task in found.tasks if task.about["variation"] == "memory"]
    assert {task.about["objective"] for task in memory} == {Objective.PEAK_MEMORY.value}
    assert {task.asked["time_limit_s"] for task in found.tasks} == {3.0, 60.0}


def test_a_variation_that_a_file_does_not_know_is_bad(tmp_path):
    text = '[[variations]]\nname = "x"\nobjective = "latency"\n'
    found = expansion(tmp_path, text, files=TINY[:1])
    assert not found.tasks
    (entry,) = found.missing
    assert entry.variation == "x"
    assert not entry.harmless
    assert "serial" in entry.reason


def test_a_key_depends_on_what_is_asked(tmp_path):
    keys = set()
    for text in ("", "[limits]\ntime = 5\n", "[limits]\nthreads = 2\n", "[limits]\ngap = 0\n"):
        keys |= {task.key for task in expansion(tmp_path, text, files=TINY[:1]).tasks}
    assert len(keys) == 4


def test_a_formulation_file_is_seen_from_the_suite(tmp_path):
    (tmp_path / "own.py").write_text(REUSED)
    text = '[[planners]]\nname = "own"\nformulation = "own.py"\n'
    (task,) = expansion(tmp_path, text, files=TINY[:1]).tasks
    assert task.asked["formulation"] == str(tmp_path / "own.py")
    (tmp_path / "own.py").write_text(REUSED + "\n# changed\n")
    (again,) = expansion(tmp_path, text, files=TINY[:1]).tasks
    assert again.key != task.key


def test_instances_of_every_kind_are_run(tmp_path):
    """Each is read by its own kind, in the process of its run too."""
    sharding = sharding_problem("strategies", [[9, 1], [9, 1]], edges={(0, 1): [[0, 3], [3, 1]]})
    (tmp_path / "strategies.json").write_bytes(to_json(sharding))
    store_document(tmp_path, sample(), "stages.json")
    files = (*TINY[:1], str(tmp_path / "strategies.json"), str(tmp_path / "stages.json"))
    text = """
[[variations]]
name = "as it is"
[[variations]]
name = "two devices"
changes = { devices = 2, bandwidth = 2 }
[[planners]]
name = "ours"
time = 30
[[planners]]
name = "heft"
planner = "heft"
"""
    found = expansion(tmp_path, text, files=files)
    whole = [task for task in found.tasks if task.about["variation"] == "as it is"]
    assert {task.about["kind"] for task in whole} == {"schedule", "sharding", "hybrid"}
    refused = [entry for entry in found.missing if entry.variation == "two devices"]
    assert [entry.label for entry in refused] == [TINY[0], "strategies.json"]
    assert all("an option of hybrid problems" in entry.reason for entry in refused)
    store = Store(tmp_path / "store")
    drive(found.tasks, store, Here())
    rows = {(r["kind"], r["variation"], r["planner"]): r for r in rows_of(found, store)}
    for kind in ("schedule", "sharding", "hybrid"):
        row = rows[kind, "as it is", "ours"]
        assert (row["status"], row["verdict"]) == ("done", "ok"), kind
        assert row["gap"] < 1e-6, kind
    assert rows["sharding", "as it is", "ours"]["value"] == "3"
    assert rows["hybrid", "two devices", "ours"]["devices"] == 2
    assert rows["hybrid", "as it is", "heft"]["status"] == "unsupported"
    assert (
        "does not plan problems of the kind sharding"
        in (rows["sharding", "as it is", "heft"]["error"])
    )


def test_suites_hold_every_instance_of_the_repository():
    entries = [
        entry
        for name in ("shipped", "traps")
        for entry in read_suite(INSTANCES / "suites" / f"{name}.toml").entries
    ]
    assert {e.stem for e in entries} == {r.name for r in SHIPPED} | {t.name for t in TRAPS}
    assert not any(entry.absent for entry in entries)


def test_absent_public_files_are_listed_with_the_reason(monkeypatch, tmp_path):
    suite = INSTANCES / "suites" / "dnn-partitioning.toml"
    monkeypatch.setenv("MILP_PLAN_BENCHMARKS", str(tmp_path))
    entries = read_suite(suite).entries
    assert len(entries) == 19
    assert all("MILP_PLAN_BENCHMARKS" in e.absent and "github.com" in e.absent for e in entries)
    assert all(str(tmp_path) not in e.absent for e in entries)
    there = tmp_path / entries[0].label
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    assert [bool(e.absent) for e in read_suite(suite).entries] == [False] + 18 * [True]


def test_without_the_variable_the_way_to_set_it_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SOME_FOLDER", raising=False)
    head = 'title = "t"\nvariable = "SOME_FOLDER"\nfolder = "nowhere"\nfiles = ["x.json"]'
    (tmp_path / "mine.toml").write_text(head)
    (entry,) = read_suite(tmp_path / "mine.toml").entries
    assert entry.absent == "not in nowhere; set SOME_FOLDER to their folder"
    assert entry.stem == "x"
