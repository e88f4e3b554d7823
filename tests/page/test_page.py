"""The page, without a browser: needs Bokeh (``make test-report``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.report.page import report_text
from tests.cli.cases import call, late_plan
from tests.report.plans import plan_of_two_devices, two_devices

from .runs import entry, renamed, run_files

pytest.importorskip("bokeh", reason="reports are tested by make test-report, which has Bokeh")


STRANGE = ("</script><script>boom()</script>", "$$\\frac{a$$", "算子", '"><img src=x>', "\x1b\x00")


def without_library(text: str) -> str:
    return re.sub(r"<script[^>]*>.{100000,}?</script>", "", text, flags=re.DOTALL)


def test_a_report_is_one_file_that_is_written_again(tmp_path: Path) -> None:
    path, _ = run_files(tmp_path)
    page = tmp_path / "page.html"
    for _ in range(2):
        result = call("report", path, "-o", page)
        assert (result.exit_code, result.stdout, result.stderr) == (Exit.DONE, f"{page}\n", "")
    text = page.read_text()
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", text) == []
    assert "valid: makespan 14 µs" in text
    assert [p.name for p in tmp_path.iterdir() if "tmp" in p.name] == []


def test_a_plan_stands_for_the_record_next_to_it(tmp_path: Path) -> None:
    path, _ = run_files(tmp_path)
    plan = path.with_name(f"{path.stem}.plan.json")
    assert plan.is_file()
    for given in ([plan], [path, plan]):
        assert call("report", *given, "-o", tmp_path / "page.html").exit_code == Exit.DONE
        assert "compared with the first" not in (tmp_path / "page.html").read_text()


def test_a_broken_plan_is_reported_on_the_page_and_on_standard_error(tmp_path: Path) -> None:
    path, _ = run_files(tmp_path, late_plan())
    result = call("report", path, "-o", tmp_path / "page.html")
    assert result.exit_code == Exit.DONE
    assert "not valid" in result.stderr
    assert "not valid: 1 violation" in (tmp_path / "page.html").read_text()


def test_several_records_are_compared(tmp_path: Path) -> None:
    first, _ = run_files(tmp_path, name="first")
    second, _ = run_files(tmp_path, late_plan(), name="second")
    none, _ = run_files(tmp_path, name="none", value=None, infeasible_reason="a <b> proof")
    assert call("report", first, second, none, "-o", tmp_path / "p.html").exit_code == Exit.DONE
    text = (tmp_path / "p.html").read_text()
    assert "Comparison" in text
    assert "compared with the first" in text
    assert "infeasible: a &lt;b&gt; proof" in text


@pytest.mark.parametrize(
    "name",
    ["</script><script>boom()</script>", "$$\\frac{a$$", "算子", '"><img src=x>', "\x1b\x00"],
)
def test_names_are_text_and_nothing_else(name: str) -> None:
    problem, plan = renamed(name, two_devices(), plan_of_two_devices())
    ours = without_library(report_text([entry(problem, plan, name)]))
    assert "<script>boom" not in ours
    assert "<img" not in ours
