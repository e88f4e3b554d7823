from milp_plan.kinds.schedule.bounds.catalogue import infeasibility
from milp_plan.kinds.schedule.formats import read, write

from .samples import full_problem, raw, store


def test_write_then_read(tmp_path):
    path = tmp_path / "p.json"
    write(full_problem(), path)
    assert read(str(path)) == full_problem()


def test_an_operator_larger_than_every_memory_is_no_bad_input(tmp_path):
    """It has no plan, which is proved; the amounts of the proof are in units of the file."""
    document = raw()
    document["cluster"]["devices"][1]["memory_bytes"] = 800
    document["operators"][1]["options"][0]["workspace_bytes"] = 10**6
    found = infeasibility(read(store(tmp_path, document)))
    assert found is not None
    assert found.subjects == ("use",)
    assert "1,000,110 (unit unspecified)" in found.reason
