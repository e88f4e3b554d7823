"""``bench``, ``table`` with a suite, and ``plot KIND``, in this process."""

import json
import shutil
import sys

import pandas
import pytest

from milp_plan.cli.exits import Exit
from milp_plan.study import driver
from tests.cli.cases import call

from .cases import INSTANCES, REUSED, TINY, InThisProcess, suite_file


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A suite of heuristics that was run, with its store."""
    folder = tmp_path_factory.mktemp("done")
    suite = suite_file(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "Child", InThisProcess)  # test_kinds.py and test_driver.py start them
        result = call("bench", "run", suite, "--store", folder / "store", "--jobs", 2)
    assert result.exit_code == Exit.DONE, result.stderr
    assert "gang-beats-single, heft, seed 0: 110, finished, ok" in result.stderr
    assert "6 runs: 6 done now, 0 before, 0 failed, 0 left" in result.stderr
    return suite, folder / "store"


@pytest.mark.untraced
def test_again_does_nothing(done):
    suite, store = done
    result = call("bench", "run", suite, "--store", store)
    assert result.exit_code == Exit.DONE
    assert "6 runs: 0 done now, 6 before" in result.stderr


def test_dry_run(done, tmp_path):
    suite, store = done
    assert (
        "0 runs of at most 0 s" in call("bench", "run", suite, "--store", store, "--dry-run").stderr
    )
    fresh = call("bench", "run", suite, "--store", tmp_path / "none", "--dry-run")
    assert "two-sends-one-port, heft, seed 0: 60 s" in fresh.stdout
    assert "6 runs of at most 360 s together" in fresh.stderr
    assert not (tmp_path / "none").exists()


def test_status(done, tmp_path):
    suite, store = done
    reported = call("bench", "status", suite, "--store", store).stdout
    assert "done         6" in reported
    copy = tmp_path / "store"
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns("sources"))
    next(path for path in copy.glob("*.json") if ".plan" not in path.name).write_text("{")
    assert "no JSON" in call("bench", "status", suite, "--store", copy).stdout
    found = json.loads(call("bench", "status", suite, "--store", copy, "--json").stdout)
    assert (found["done"], found["not run"], len(found["damaged"])) == (5, 1, 1)


def test_collect(done, tmp_path):
    suite, store = done
    result = call("bench", "collect", suite, "--store", store, "-o", tmp_path / "all")
    assert result.exit_code == Exit.DONE, result.stderr
    parquet = pandas.read_parquet(tmp_path / "all.parquet")
    sheet = pandas.read_csv(tmp_path / "all.csv", dtype={"value": "string"})
    assert list(parquet["value"]) == list(sheet["value"])
    assert list(parquet.columns) == list(sheet.columns)
    assert set(parquet["verdict"]) == {"ok"}
    assert parquet["value_float"].dtype == "Float64"
    assert parquet["phase plan"].notna().all()
    one = call("bench", "collect", suite, "--store", store, "-o", tmp_path / "one.csv")
    assert one.stdout == f"{tmp_path / 'one.csv'}\n"
    wrong = call("bench", "collect", suite, "--store", store, "-o", tmp_path / "one.txt")
    assert wrong.exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ("value = 120.5", Exit.DONE, "better than known: gang-beats-single, heft: value 110"),
        ("optimum = 111", Exit.NOT_VALID, "contradiction: gang-beats-single, heft: value 110"),
        ("optimum = 110", Exit.DONE, ""),
    ],
)
def test_collect_compares_with_known_values(entry, code, said, done, tmp_path):
    suite, store = done
    text = '[[known]]\ninstance = "gang-beats-single"\nobjective = "makespan"\nsource = "s"\n'
    (tmp_path / "known.toml").write_text(text + entry)
    result = call(
        *("bench", "collect", suite, "--store", store, "-o", tmp_path / "x.csv"),
        *("--known", tmp_path / "known.toml"),
    )
    assert result.exit_code == code
    assert said in result.stderr


def test_absent_and_bad_instances(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "Child", InThisProcess)
    (tmp_path / "bad.json").write_text("{")
    files = (TINY[0], "absent.json", str(tmp_path / "bad.json"))
    text = '[[planners]]\nname = "heft"\nplanner = "heft"\n'
    suite = suite_file(tmp_path, text, files=files)
    result = call("bench", "run", suite, "--store", tmp_path / "store", "--quiet")
    assert result.exit_code == Exit.BAD_INPUT
    assert f"{suite}: absent.json: absent: not in" in result.stderr
    assert "bad.json: line 1" in result.stderr
    assert "1 runs: 1 done now" in result.stderr
    optional = suite_file(tmp_path, text, files=files[:2], head="optional = true")
    assert call("bench", "run", optional, "--store", tmp_path / "store").exit_code == Exit.DONE


@pytest.mark.slow
def test_a_planner_that_crashes_is_a_failed_run(tmp_path):
    (tmp_path / "odd.py").write_text(_crashing())
    text = '[[planners]]\nname = "odd"\nformulation = "odd.py"\n'
    suite = suite_file(tmp_path, text, files=TINY[:1])
    result = call("bench", "run", suite, "--store", tmp_path / "store")
    assert result.exit_code == Exit.SOLVER_FAILURE
    assert "failed: the process ended with code 7" in result.stderr
    kept = call("bench", "run", suite, "--store", tmp_path / "store", "--no-retry-failed")
    assert kept.exit_code == Exit.SOLVER_FAILURE
    assert "0 done now, 0 before, 1 failed" in kept.stderr


def _crashing():
    """A formulation that is good where it is looked up, and ends the process that runs it."""
    return REUSED + "\nimport os, sys\nif sys.argv[0].endswith('job.py'):\n    os._exit(7)\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[planners]]\nname = "x"\nplanner = "none such"\n', "planners[0].planner"),
        ("[limits]\ntime = -1\n", "limits.time"),
    ],
)
def test_suites_that_are_refused(text, said, tmp_path):
    result = call("bench", "run", suite_file(tmp_path, text))
    assert result.exit_code == Exit.BAD_INPUT
    assert said in result.stderr
    assert call("bench", "run", tmp_path / "no.toml").exit_code == Exit.BAD_INPUT


def test_dask_without_a_scheduler_or_without_dask(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    suite = suite_file(tmp_path)
    result = call("bench", "run", suite, "--dask", "tcp://nowhere:1", "--store", tmp_path / "s")
    assert result.exit_code == Exit.SOLVER_FAILURE
    assert "pip install 'milp_plan[cluster]'" in result.stderr


# -- tables ----------------------------------------------------------------------------------------

SPEC = """
title = "Traps"
about = "Three traps."
suite = "tiny.toml"
ours = ["heft"]
columns = [
    "instance", "value", "gap", "planner:earliest", "value:theirs", "seconds:theirs",
    "value:luck", "best_published", "ratio", "standing",
]
published_file = "published.csv"
notes = ["Of no use."]

[[published]]
instance = "gang-beats-single"
method = "luck"
value = 1
counts = false
source = "a dream"
"""
PUBLISHED = """instance,method,value,seconds,source,note
gang-beats-single,theirs,120.5,> 600,"them, table 1",rounded
two-sends-one-port,theirs,40,0.25,"them, table 1",rounded
memory-forces-delay,theirs,1,,"them, table 1",rounded
somewhere-else,theirs,1,,"them, table 1",rounded
"""


@pytest.fixture
def table(done, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "published.csv").write_text(PUBLISHED)
    shutil.copy(done[0], tmp_path / "tiny.toml")
    return tmp_path, done[1]


def test_table_next_to_published_figures(table):
    folder, store = table
    result = call("table", folder, "--store", store)
    assert result.exit_code == Exit.DONE, result.stderr
    assert "somewhere-else, as it is, belong to no run" in result.stderr
    page = (folder / "table.md").read_text()
    lines = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if "|" in line}
    assert lines["gang-beats-single"] == (
        "| gang-beats-single | **110** | — | 110 | 120.5 | > 600 | 1* | 120.5 (theirs) "
        "| 0.9129 | better |"
    )
    assert lines["two-sends-one-port"].endswith("| 40 (theirs) | 1.0000 | equal |")
    assert lines["memory-forces-delay"].endswith("| worse |")
    assert "1 better, 1 equal, 1 worse" in page
    assert "- luck*: a dream" in page
    assert "- theirs: them, table 1; rounded" in page
    rows = pandas.read_csv(folder / "table.csv")
    assert list(rows["standing"]) == ["better", "equal", "worse"]
    assert list(rows["value:theirs"]) == [120.5, 40, 1]
    assert "planner:earliest" in rows.columns


def test_render_needs_neither_store_nor_instances(table):
    folder, store = table
    call("table", folder, "--store", store)
    (folder / "tiny.toml").unlink()
    before = (folder / "table.md").read_text()
    text = (folder / "spec.toml").read_text().replace('title = "Traps"', 'title = "Snares"')
    (folder / "spec.toml").write_text(text)
    assert call("table", folder, "--render").exit_code == Exit.DONE
    assert (folder / "table.md").read_text() == before.replace("# Traps", "# Snares")


def test_render_without_results(table):
    folder, _ = table
    assert call("table", folder, "--render").exit_code == Exit.BAD_INPUT
    (folder / "table.json").write_text("[]")
    assert "expected one per case" in call("table", folder, "--render").stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"ratio"', '"ration"', "did you mean 'ratio'?"),
        ('"value:theirs"', '"value:thiers"', "did you mean 'value:theirs'?"),
        ('"planner:earliest"', '"planner:latest"', "a planner of the suite"),
        ('ours = ["heft"]', 'ours = ["left"]', "a planner of the suite"),
        ('suite = "tiny.toml"', 'suite = "nothing.toml"', "no such file"),
        ("value = 1\n", 'value = "1"\n', "published[0].value"),
    ],
)
def test_specs_that_are_refused(old, new, said, table):
    folder, store = table
    text = (folder / "spec.toml").read_text()
    assert old in text
    (folder / "spec.toml").write_text(text.replace(old, new))
    result = call("table", folder, "--store", store)
    assert result.exit_code == Exit.BAD_INPUT
    assert said in result.stderr


def test_published_figures_that_are_refused(table):
    folder, store = table
    (folder / "published.csv").write_text(PUBLISHED + "gang-beats-single,theirs,x,,s,\n")
    result = call("table", folder, "--store", store)
    assert result.exit_code == Exit.BAD_INPUT
    assert "[4].value" in result.stderr
    (folder / "published.csv").write_text(PUBLISHED + "gang-beats-single,theirs,2,,s,\n")
    assert "one figure per method" in call("table", folder, "--store", store).stderr


# -- pictures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["value-time", "performance-profile"])
def test_pictures(kind, done, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")
    suite, store = done
    picture = tmp_path / "a.png"
    result = call("plot", kind, suite, "--store", store, "-o", picture)
    assert result.exit_code == Exit.DONE, result.stderr
    assert picture.stat().st_size > 5_000


def test_pictures_of_nothing(done, tmp_path):
    suite, _ = done
    empty = call("plot", "gap", suite, "--store", tmp_path, "-o", tmp_path / "a.png")
    assert empty.exit_code == Exit.BAD_INPUT
    assert "milp-plan bench run" in empty.stderr
    boundless = call("plot", "gap", *done[:1], "--store", done[1], "-o", tmp_path / "a.png")
    assert boundless.exit_code == Exit.BAD_INPUT
    assert "none with a bound" in boundless.stderr
    usage = call("plot", "gab", suite, suite, "-o", tmp_path / "a.png")
    assert usage.exit_code == Exit.USAGE
    assert "value-time" in usage.stderr
    (tmp_path / "r.json").write_text("{}")
    assert call("plot", "gap", tmp_path / "r.json", "-o", tmp_path / "a.png").exit_code == 3


def test_a_suite_is_found_by_name(monkeypatch):
    monkeypatch.chdir(INSTANCES.parent)
    result = call("bench", "run", "traps", "--dry-run", "--store", "/nonexistent")
    assert "12 runs of at most 720 s together" in result.stderr
