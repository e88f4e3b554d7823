"""What ``bench run`` says on the way."""

import io

import pytest
from rich.console import Console

from milp_plan.cli.bench_progress import Live, Log, Watch, result_line, summary
from milp_plan.study.driver import SuiteProgress

from .cases import a_task


def state(**changes):
    return SuiteProgress(total=10, known=2, done=3, failed=1, seconds=8.0, slots=2, **changes)


def test_summary_counts_and_estimates():
    said = summary(state())
    assert said.startswith("5 of 10 done, 0 running, 1 failed, 4 left")
    assert "about 4 s to go" in said  # four runs of 2 s, two at a time
    assert "with another driver" not in said
    assert "2 with another driver" in summary(state(elsewhere=2))
    assert "to go" not in summary(SuiteProgress(total=10))


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ({"value": 110, "gap": 0.5}, "110, gap 50.00%, s, ok, 1.00 s"),
        ({"value": None, "infeasible_because": "so"}, "infeasible, s"),
        ({"value": None}, "no plan, s"),
        (None, "failed: because"),
    ],
)
def test_result_lines(outcome, said, tmp_path):
    rest = {"gap": None, "infeasible_because": None, "stop": "s", "verdict": "ok", "seconds": 1.0}
    status = "failed" if outcome is None else "done"
    full = None if outcome is None else rest | outcome
    line = result_line(a_task(tmp_path), {"status": status, "error": "because", "outcome": full})
    assert line.startswith("gang-beats-single, heft, seed 0: ")
    assert said in line


def test_live_shows_what_runs_and_keeps_results():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with Live(console) as live:
        watch = Watch(live, lambda: ["a worker was lost"])
        now = state()
        now.running["a run"] = now.began
        watch(now, None, None)
        console.print(live._render())
    said = console.file.getvalue()
    assert "a worker was lost" in said
    assert "5 of 10 done" in said
    assert "a run: 0 s" in said


def test_a_log_speaks_after_a_silence(capsys):
    log = Log()
    log.state(state())
    assert capsys.readouterr().err == ""
    log._said_s -= 1000
    log.state(state())
    assert "5 of 10 done" in capsys.readouterr().err
