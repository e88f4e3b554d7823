"""One run in a process of its own: answers, crashes, hard stops, and the death of its starter."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from milp_plan.check import verify
from milp_plan.core import MilpPlanError
from milp_plan.io.plan_file import plan_from_json
from milp_plan.kinds.schedule.formats import read
from milp_plan.models.registry import shipped_folders
from milp_plan.run import identity
from milp_plan.study.job import Child, do, job_of

from .cases import (
    INSTANCES,
    REPOSITORY,
    REUSED,
    TINY,
    a_job,
    a_task,
    ended,
    expansion,
    formulation,
    until,
)

SOLVE = {
    "work": "solve",
    "formulation": "auto",
    "options": {},
    "target": 25,
    "rounds": 0,
    "node_limit": None,
    "solver": "highs",
    "time_limit_s": 10,
}
SLEEP = "import time\ntime.sleep(600)\n"


def test_a_heuristic_gives_a_checked_plan(tmp_path):
    task = a_task(tmp_path)
    answer = do(job_of(task))
    assert answer["status"] == "done"
    problem = read(INSTANCES / TINY[0])
    verdict = verify(problem, plan_from_json(answer["plan"].encode()))
    assert verdict.ok
    assert verdict.value == answer["outcome"]["value"]
    assert answer["outcome"]["fingerprint"] == problem.fingerprint


def test_both_stages_give_a_record(tmp_path):
    answer = do(a_job(a_task(tmp_path), **SOLVE))
    assert answer["status"] == "done", answer["error"]
    assert answer["outcome"]["value"] == answer["outcome"]["bound"] == 110
    json.dumps(answer)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sources": "others"}, "the sources are not those of the driver"),
        ({"installed": {"highspy": "0"}}, "other versions"),
        ({"source": {"fingerprint": "f"}}, "arrived changed"),
        ({"source": {"data": b"no file"}}, "content of no known format"),
    ],
)
def test_a_job_that_does_not_fit_fails(changes, said, tmp_path):
    job = job_of(a_task(tmp_path))
    answer = do(job | changes | {"source": job["source"] | changes.get("source", {})})
    assert answer["status"] == "failed"
    assert said in answer["error"]


def test_a_formulation_that_does_not_apply_says_so(tmp_path):
    answer = do(a_job(a_task(tmp_path), **SOLVE | {"formulation": "pipeline_order"}))
    assert answer["status"] == "unsupported"
    assert "does not apply" in answer["error"]


def test_a_process_answers(tmp_path):
    answer = Child(job_of(a_task(tmp_path))).result()
    assert answer["status"] == "done", answer["error"]
    assert answer["outcome"]["verdict"] == "ok"
    assert answer["worker"]["pid"] > 0


def test_a_crash_is_an_answer(tmp_path):
    child = Child(job_of(a_task(tmp_path)))
    child.process.kill()
    answer = child.result()
    assert answer["status"] == "failed"
    assert "ended with code -9" in answer["error"]


def test_a_run_that_overruns_is_ended(tmp_path):
    odd = formulation(tmp_path, SLEEP) | {"time_limit_s": 0.2, "grace_s": 0.3}
    child = Child(a_job(a_task(tmp_path), **odd))
    answer = child.result()
    assert answer["status"] == "failed"
    assert "not done after 0.5 s" in answer["error"]
    assert ended(child.process.pid)


def test_an_interrupted_run_without_a_plan_is_discarded(tmp_path):
    child = Child(job_of(a_task(tmp_path)))
    child.interrupt()
    answer = child.result()
    assert answer["status"] == "interrupted"
    assert answer["outcome"] is None


def test_nobody_wants_it_any_more(tmp_path):
    child = Child(a_job(a_task(tmp_path), **formulation(tmp_path, SLEEP)))
    answer = child.result(lambda: True)
    assert answer["status"] == "failed"
    assert ended(child.process.pid)


def test_a_run_ends_with_its_starter(tmp_path):
    odd = formulation(tmp_path, SLEEP)
    job = a_job(a_task(tmp_path), **odd)
    (tmp_path / "job").write_bytes(pickle.dumps(job))
    code = (
        "import pickle, sys; from milp_plan.study.job import Child\n"
        "child = Child(pickle.load(open(sys.argv[1], 'rb')))\n"
        "print(child.process.pid, flush=True); child.result()"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "job")],
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
    )
    with starter:
        pid = int(starter.stdout.readline())
        assert not ended(pid)
        starter.kill()
    until(lambda: ended(pid))


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_best_plan(tmp_path):
    ready = tmp_path / "ready"
    odd = formulation(
        tmp_path,
        f"{REUSED}\n"
        "def _wait(*_):\n"
        "    import pathlib, time\n"
        f"    pathlib.Path({str(ready)!r}).touch()\n"
        "    time.sleep(600)\n"
        "type(FORMULATION).build = _wait\n",
    )
    (task,) = expansion(tmp_path, "", files=("gpt-tiny-training-2xA100.json",)).tasks
    child = Child(a_job(task, **odd))

    def press():
        if ready.exists() and not child.interrupted:
            child.interrupt()
        return False

    answer = child.result(press)
    assert answer["status"] == "interrupted"
    assert answer["outcome"]["stop"] == "interrupted"
    problem = read(INSTANCES / "gpt-tiny-training-2xA100.json")
    verdict = verify(problem, plan_from_json(answer["plan"].encode()))
    assert verdict.ok
    assert verdict.value == answer["outcome"]["value"]


@pytest.mark.slow
def test_the_solver_of_a_killed_run_ends_as_well(tmp_path):
    (task,) = expansion(tmp_path, "", files=("transformer-4xA100.json.gz",)).tasks
    child = Child(a_job(task, time_limit_s=100))
    solvers = set()

    def look():
        path = Path(f"/proc/{child.process.pid}/task/{child.process.pid}/children")
        solvers.update(int(pid) for pid in path.read_text().split())
        return len(solvers) >= 2  # the one that solves, and the spare one

    child.result(look)
    assert len(solvers) >= 2
    until(lambda: all(ended(pid) for pid in solvers))


# -- sources ---------------------------------------------------------------------------------------


def test_sources_are_those_of_the_registry():
    assert identity.source_folders()[1:] == shipped_folders()


def test_commands_and_reports_do_not_count(tmp_path, monkeypatch):
    package = tmp_path / "milp_plan"
    for name in ("cli/a.py", "report/b.py", "core/c.py"):
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text("1")
    before = identity._digest((package,))
    (package / "cli/a.py").write_text("2")
    assert identity._digest((package,)) == before
    (package / "core/c.py").write_text("2")
    assert identity._digest((package,)) != before


def test_sources_that_do_not_fit_on_the_disk_are_one_short_error(tmp_path, monkeypatch):
    def full(_place, copy, **_settings):
        raise shutil.Error([("a", f"{copy}/{n}.py", "No space left on device") for n in range(400)])

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(
        OSError, match=r"0\.py cannot be written: No space left on device"
    ) as caught:
        identity.snapshot(tmp_path / "frozen")
    assert len(str(caught.value)) < 300
    assert not list((tmp_path / "frozen").iterdir())


def test_frozen_sources_are_those_that_were_read(tmp_path, monkeypatch):
    package, formulations = tmp_path / "milp_plan", tmp_path / "formulations"
    for folder in (package, formulations):
        folder.mkdir()
        (folder / "a.py").write_text("1")
    monkeypatch.setattr(identity, "PACKAGE", package)
    monkeypatch.setattr(identity, "shipped_folders", lambda: (formulations,))
    digest = identity._digest((package, formulations))
    monkeypatch.setattr(identity, "sources", lambda: digest)
    compiled = package / "__pycache__"
    compiled.mkdir()
    (compiled / "a.loop.1.nbc").write_text("machine code")
    (compiled / "a.cpython.pyc").write_text("bytes")
    copy = identity.snapshot(tmp_path / "frozen")
    assert (copy / "formulations" / "a.py").read_text() == "1"
    assert not list(copy.rglob("__pycache__"))
    identity.link_caches(copy)
    identity.link_caches(copy)
    assert [path.name for path in copy.rglob("__pycache__/*")] == ["a.loop.1.nbc"]
    identity.drop_caches(copy)
    assert sorted(path.name for path in copy.rglob("*")) == [
        "a.py", "a.py", "formulations", "milp_plan",
    ]  # fmt: skip
    assert (compiled / "a.loop.1.nbc").read_text() == "machine code"
    assert identity.snapshot(tmp_path / "frozen") == copy
    (package / "a.py").write_text("2")
    with pytest.raises(MilpPlanError, match="changed meanwhile"):
        identity.snapshot(tmp_path / "other")
    assert not list((tmp_path / "other").iterdir())
