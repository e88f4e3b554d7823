"""Records that a hand has changed."""

import json

import pytest

from milp_plan.core import InputError
from milp_plan.io.record_file import read_record

RECORD = {
    "instance": "i",
    "fingerprint": "f",
    "objective": "makespan",
    "unit": "ns",
    "ticks_per_unit": 1,
    "value": 7,
    "bound": 7,
    "gap": 0.0,
    "proved": True,
    "stop": "proved",
    "verdict": "ok",
    "seconds": 0.1,
    "strategy": "schedule",
    "settings": {"seed": 0},
    "trace": [],
}


def test_a_number_of_thousands_of_digits_in_a_member_that_nothing_reads(tmp_path):
    """Python refuses to read one; found by damaged files."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps(RECORD))
    assert read_record(path) == RECORD
    path.write_text(json.dumps(RECORD)[:-1] + f', "note": 1{"0" * 5000}}}')
    with pytest.raises(InputError, match=r"record\.json"):
        read_record(path)
