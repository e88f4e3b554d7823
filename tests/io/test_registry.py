import pytest

from milp_plan.core import InputError, PlanningProblem
from milp_plan.kinds.schedule.bounds.catalogue import infeasibility
from milp_plan.kinds.schedule.formats import formats, read, read_many, write

from .samples import full_problem, raw, store


def test_formats_have_different_names():
    names = [entry.name for entry in formats()]
    assert names == ["native", "dnn-partitioning"]
    assert all(entry.title for entry in formats())


def test_write_then_read(tmp_path):
    path = tmp_path / "p.json"
    write(full_problem(), path)
    assert read(str(path)) == full_problem()


@pytest.mark.parametrize("name", ["dnn-partitioning", "fortran"])
def test_unwritable_format(tmp_path, name):
    with pytest.raises(ValueError, match="formats that can be: native"):
        write(full_problem(), tmp_path / "p.json", name)
    assert not list(tmp_path.iterdir())


def test_a_bad_file_does_not_stop_the_others(tmp_path):
    first = store(tmp_path, raw(full_problem("first")), "1.json")
    bad = tmp_path / "2.json"
    bad.write_text("{")
    last = store(tmp_path, raw(full_problem("last")), "3.json")
    results = list(read_many([first, bad, str(last)]))
    assert [path for path, _ in results] == [first, bad, last]
    good, error, other = (result for _, result in results)
    assert isinstance(good, PlanningProblem)
    assert good.name == "first"
    assert isinstance(error, InputError)
    assert error.findings[0].file == str(bad)
    assert isinstance(other, PlanningProblem)


def test_an_operator_larger_than_every_memory_is_no_bad_input(tmp_path):
    """It has no plan, which is proved; the amounts of the proof are in units of the file."""
    document = raw()
    document["cluster"]["devices"][1]["memory_bytes"] = 800
    document["operators"][1]["options"][0]["workspace_bytes"] = 10**6
    found = infeasibility(read(store(tmp_path, document)))
    assert found is not None
    assert found.subjects == ("use",)
    assert "1,000,110 (unit unspecified)" in found.reason
