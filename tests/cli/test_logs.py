"""What a command does on its way, for people who want to know."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from milp_plan.backends import Limits, highs
from milp_plan.cli.exits import Exit
from milp_plan.cli.logs import HEAD
from milp_plan.cli.main import main
from tests.backends.models import knapsack

from .cases import call, instance_file


def leaves(command: click.Command, name: str = "milp-plan") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from leaves(below, f"{name} {word}")


def test_every_command_has_a_log() -> None:
    found = dict(leaves(main))
    assert len(found) > 20
    asked = {"-v", "--verbose", "--log-file"}
    for name, command in found.items():
        assert asked <= {word for param in command.params for word in param.opts}, name


def test_steps_are_reported_and_written(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    given = ("--time-limit", "20", "--record-folder", str(tmp_path))
    done = call("solve", str(instance_file(tmp_path)), *given, "-v", "--log-file", str(log))
    assert done.exit_code == Exit.DONE, done.output
    assert "strategy schedule: bounds" in done.stderr
    assert "value None" not in done.stderr  # progress: -vv
    head, *lines = log.read_text(encoding="utf-8").splitlines()
    assert head == HEAD
    assert any("INFO milp_plan.run.strategy: strategy schedule: bounds" in line for line in lines)
    assert any("DEBUG milp_plan.run.ledger: " in line for line in lines)
    again = call("info", str(instance_file(tmp_path)), "--log-file", str(log))
    assert again.exit_code == Exit.DONE, again.output
    assert log.read_text(encoding="utf-8") == f"{HEAD}\n"


def test_nobody_listens_afterwards(tmp_path: Path) -> None:
    logger = logging.getLogger("milp_plan")
    before, level = list(logger.handlers), logger.level
    call("info", str(instance_file(tmp_path)), "-vv", "--log-file", str(tmp_path / "a.log"))
    assert logger.handlers == before
    assert logger.level == level


@pytest.mark.parametrize("name", ["two-devices.json", "other.txt", "missing/a.log"])
def test_a_log_takes_the_place_of_nothing(tmp_path: Path, name: str) -> None:
    instance = instance_file(tmp_path)
    (tmp_path / "other.txt").write_text("precious\n", encoding="utf-8")
    before = instance.read_bytes()
    done = call("info", str(instance), "--log-file", str(tmp_path / name))
    assert done.exit_code == Exit.USAGE
    assert "--log-file" in done.stderr
    assert instance.read_bytes() == before
    assert (tmp_path / "other.txt").read_text(encoding="utf-8") == "precious\n"


@pytest.mark.parametrize(("level", "heard"), [(logging.DEBUG, True), (logging.INFO, False)])
def test_the_solver_is_heard_where_it_is_asked(
    caplog: pytest.LogCaptureFixture, level: int, heard: bool
) -> None:
    small, optimum = knapsack()
    with caplog.at_level(level, logger="milp_plan"):
        report = highs.solve(small, Limits(time_s=20))
    assert report.objective == pytest.approx(optimum)
    assert any("HiGHS" in line for line in caplog.messages) is heard
