"""Amounts with units on the command line: where they are converted, and where refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.run import read
from milp_plan.run.change import host as asked
from tests.support.amounts import exponents

from .cases import call, instance_file

LIMIT = ("--time-limit", "3", "--quiet")
PIECE = "[[pieces]]\nrepeat = {}\nforward = 1\nbackward = 1\nweight = 1\nheld_to_weight = {}\n"
SIX = ("--stages", "4", "--micro-batches", "6", "--times")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def four_layers(here: Path, head: str = 'time_unit = "ms"\nsize_unit = "GiB"\n') -> Path:
    file = here / "four.toml"
    file.write_text(head + PIECE.format(4, 1))
    return file


def planned(file: Path, memory: str) -> tuple[Path, Path]:
    """Plan six micro-batches on four devices; return instance and plan."""
    instance, plan = file.with_name("i.json"), file.with_name("p.json")
    outputs = ("--instance-output", instance, "--plan-output", plan)
    assert call("pipeline", *SIX, file, "--memory", memory, *LIMIT, *outputs).exit_code == 0
    return instance, plan


def test_a_gib_more_is_one_of_the_files_gib(here: Path) -> None:
    """2^30 was added to a number of GiB: 21 ms, "proved", where the memory of 2 GiB gives 31."""
    file = four_layers(here)
    instance, plan = planned(file, "1")
    asked = [f"--what-if=memory+{more}" for more in ("1GiB", "1024MiB")]
    answer = json.loads(call("explain", instance, plan, *asked, *LIMIT, "--json").stdout)
    assert [effect["value_in_unit"] for effect in answer["what_if"]] == ["31"] * 2
    assert {effect["question"] for effect in answer["what_if"]} == {"memory +1 GiB each"}
    reported = json.loads(call("pipeline", *SIX, file, "--memory", "2", *LIMIT, "--json").stdout)
    assert (reported["time"], reported["time_unit"]) == (31, "ms")


def test_a_file_without_units_counts_as_it_does(here: Path) -> None:
    """What has no unit is not converted; the refusal names the form that works."""
    instance, plan = planned(four_layers(here, ""), "1")
    refused = call("explain", instance, plan, "--what-if", "memory+1GiB", *LIMIT)
    assert refused.exit_code == Exit.BAD_INPUT
    assert "the problem names no unit of size" in refused.stderr
    assert "ask memory+1, which counts as the file does" in refused.stderr
    answer = call("explain", instance, plan, "--what-if", "memory+1", *LIMIT, "--json").stdout
    (effect,) = json.loads(answer)["what_if"]
    assert effect["value_in_unit"] == "31"


def test_a_word_of_ones_own_is_a_unit(here: Path) -> None:
    file = four_layers(here, 'time_unit = "steps"\nsize_unit = "activations"\n')
    reported = call("pipeline", *SIX, file, "--memory", "1.5", *LIMIT)
    assert "memory limit 1.5 activations: makespan 54 steps" in reported.stdout
    assert "peak memory 1 activations" in reported.stdout
    wrong = call("pipeline", *SIX, file, "--memory", "1GiB", *LIMIT)
    assert wrong.exit_code == Exit.BAD_INPUT
    assert "the problem names 'activations' as unit of size" in wrong.stderr


@pytest.mark.parametrize(
    ("memory", "transfer", "lane"),
    [("1536MiB", "500us", "2000us"), ("1610612736B", "0.0005s", "2ms")],
)
def test_options_name_units(here: Path, memory: str, transfer: str, lane: str) -> None:
    file = four_layers(here)

    def problem(*words: str) -> str:
        options = ("--memory", words[0], "--transfer", words[1], "--lane", words[2])
        output = ("--instance-output", here / "i.json", "--time-limit", "1", "--quiet", "--json")
        reported = json.loads(call("pipeline", *SIX, file, *options, *output).stdout)
        assert reported["memory_limit"] == 1.5
        return (here / "i.json").read_text()

    assert problem(memory, transfer, lane) == problem("1.5", "0.5", "2")


def test_large_amounts_have_units_and_no_exponent(here: Path) -> None:
    """``memory limit 8e+10: makespan 1.07649e+10`` was said of bytes and nanoseconds."""
    file = here / "large.toml"
    piece = PIECE.format(2, 20 * 10**9).replace("= 1\n", "= 1076490000\n")
    file.write_text(f'time_unit = "ns"\nsize_unit = "bytes"\n{piece}')
    words = ("--stages", "2", "--micro-batches", "3", "--times", file, "--memory")
    reported = call("pipeline", *words, "80e9", *LIMIT)
    assert "memory limit 74.5058 GiB: makespan 10.7649 s" in reported.stdout
    assert not exponents(reported.stdout)
    several = call("pipeline", *words, "80e9,60e9,none", *LIMIT)
    assert not exponents(several.stdout)
    assert "55.8794 GiB" in several.stdout


def test_a_host_is_as_fast_as_it_says(here: Path) -> None:
    """The rate of a problem in another unit was taken for bytes in 10^9 of its ticks."""
    instance, _ = planned(four_layers(here), "2")
    native = instance_file(here)
    for file in (instance, native):
        problem = read(file, {"host": asked("64GiB@1GiB/s")})[1]
        channel = problem.cluster.channel("host", problem.cluster.device_names[0])
        assert channel is not None
        assert channel.transfer_ticks(2**30) == 10**9
