import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milp_plan.core import InputError, OperatorRun, Plan, Transfer
from milp_plan.io.plan_file import plan_from_json, plan_to_json, read_plan, write_plan
from milp_plan.kinds.schedule.formats import write

from .samples import full_plan, full_problem, store

_words = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
_devices = st.lists(_words, max_size=3).map(tuple)
_times = st.none() | st.integers(-5, 2**70)
_plans = st.builds(
    Plan,
    _words,
    st.lists(st.builds(OperatorRun, _words, _words, _devices, _times, _times)).map(tuple),
    st.lists(st.builds(Transfer, _words, _devices, _devices, _words, _times, _times)).map(tuple),
    st.none() | _words,
    st.none() | _words,
    _times,
    _words,
    st.dictionaries(_words, _words, max_size=2),
)


@pytest.mark.untraced
@given(_plans)
def test_round_trip(plan):
    text = plan_to_json(plan)
    assert plan_from_json(text) == plan
    assert plan_to_json(plan_from_json(text)) == text


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz"])
def test_file(tmp_path, name):
    write_plan(full_plan(), tmp_path / name)
    assert read_plan(tmp_path / name) == full_plan()


def test_a_plan_without_times():
    text = b"""{"format": "milp-plan-plan", "version": 1, "problem": "p",
        "operators": [{"operator": "a", "option": "o", "devices": ["d"]}]}"""
    plan = plan_from_json(text)
    assert plan == Plan("p", (OperatorRun("a", "o", ("d",)),))
    assert not plan.has_schedule


def test_every_defect_is_listed(tmp_path):
    document = json.loads(plan_to_json(full_plan()))
    document["operators"][0]["start_ns"] = 0.5
    document["operators"][1]["device"] = document["operators"][1].pop("devices")
    document["transfers"][0].pop("layout")
    path = store(tmp_path, document)
    with pytest.raises(InputError) as caught:
        read_plan(path)
    assert [finding.where for finding in caught.value.findings] == [
        "operators[0].start_ns",
        "operators[1].devices",
        "operators[1].device",
        "transfers[0].layout",
    ]
    assert {finding.file for finding in caught.value.findings} == {str(path)}
    assert caught.value.findings[2].remedy == "did you mean 'devices'?"


def test_an_instance_is_no_plan(tmp_path):
    path = tmp_path / "instance.json"
    write(full_problem(), path)
    with pytest.raises(InputError, match='format: found "milp-plan-instance"'):
        read_plan(path)


def test_missing_plan(tmp_path):
    with pytest.raises(InputError, match="found no such file, expected a plan file"):
        read_plan(tmp_path / "plan.json")


def test_truncated_plan(tmp_path):
    path = tmp_path / "plan.json"
    path.write_bytes(plan_to_json(full_plan())[:-20])
    with pytest.raises(InputError, match="text that ends too early") as caught:
        read_plan(path)
    assert len(caught.value.findings) == 1
