import pytest

from milp_plan.check import verify
from milp_plan.core import Channel, Cluster, Device, DeviceClass, Transfer

from .cases import broken, cluster, messages, op, option, plan, problem, run, send, value

P = problem("a b", [value("v", "a", "b")])
GOOD = plan(run("a", "d0", 0), send("v", "d0", "d1", 10), run("b", "d1", 20))


def test_one_device_needs_no_transfer():
    assert broken(P, plan(run("a", "d0", 0), run("b", "d0", 10))) == []
    assert verify(P, plan(run("a", "d0", 0), run("b", "d0", 10))).value == 20


def test_another_device_needs_one():
    assert broken(P, GOOD) == []
    (violation,) = verify(P, plan(run("a", "d0", 0), run("b", "d1", 20))).violations
    assert violation.rule == "supply"
    assert violation.subjects == ("v", "b", "d1")
    assert "is not brought to d1 in layout 'full', where b reads it" in violation.message


def test_a_native_copy_is_complete_when_its_producer_stops():
    # Devices overlap in time as well, so the late input is read on a part of the site.
    pair = option("pair", gang=2)
    p = problem(
        [op("a", options=(pair,)), op("b")], [value("v", "a", "b")], cluster(groups="d0+d1")
    )
    early = plan(run("a", "d0+d1", 0, option="pair"), run("b", "d1", 9))
    found = {v.rule: v for v in verify(p, early).violations}
    assert set(found) == {"exclusion", "supply"}
    assert (found["supply"].needed, found["supply"].available) == (10, 9)


def test_a_transfer_arrives_before_its_reader_starts():
    late = plan(run("a", "d0", 0), send("v", "d0", "d1", 10), run("b", "d1", 19))
    (violation,) = verify(P, late).violations
    assert "arrives too late for 'b'" in violation.message
    assert (violation.needed, violation.available) == (20, 19)
    assert "b" in violation.subjects


def test_a_transfer_leaves_after_its_producer_stops():
    early = plan(run("a", "d0", 0), send("v", "d0", "d1", 9), run("b", "d1", 20))
    (violation,) = verify(P, early).violations
    assert "starts before 'a' stops" in violation.message
    assert (violation.needed, violation.available) == (10, 9)


@pytest.mark.parametrize("stop", [19, 21])
def test_a_transfer_lasts_what_its_channel_takes(stop):
    wrong = plan(run("a", "d0", 0), send("v", "d0", "d1", 10, stop), run("b", "d1", 21))
    assert messages(P, wrong) == (
        "supply: the transfer of 'v' from d0 to d1 in layout 'full' has the wrong duration "
        f"(needed 10, available {stop - 10})"
    )


def test_payload_and_messages_count():
    # 3 bytes travel instead of 8, in 2 messages: 2 * 2 latency + 3 + 1 rounding = 8 ticks.
    p = problem("a b", [value("v", "a", "b", transfer_bytes={"full": 3}, messages=2)])
    assert (
        broken(p, plan(run("a", "d0", 0), send("v", "d0", "d1", 10, 18), run("b", "d1", 18))) == []
    )
    assert broken(p, GOOD) == ["supply"]


def test_a_value_travels_once_per_destination():
    p = problem("a b c", [value("v", "a", "b c")])
    tasks = [run("a", "d0", 0), run("b", "d1", 20), run("c", "d1", 30)]
    assert broken(p, plan(*tasks, send("v", "d0", "d1", 10))) == []
    twice = [send("v", "d0", "d1", 10), send("v", "d0", "d1", 20)]
    found = verify(p, plan(*tasks, *twice)).violations
    # The second arrives at 30: too late for b, in time for c.
    assert [v.message.rsplit("'full' ")[1] for v in found] == [
        "is made more than once",
        "arrives too late for 'b'",
    ]


def test_needless_transfers():
    to_nobody = plan(*GOOD.runs, *GOOD.transfers, send("v", "d0", "d2", 20))
    p = problem("a b", [value("v", "a", "b")], cluster("d0 d1 d2"))
    assert "no consumer reads this copy" in messages(p, to_nobody)
    home = plan(run("a", "d0", 0), send("v", "d0", "d0", 10, 10), run("b", "d0", 10))
    assert "the native copy is there already" in messages(p, home)
    assert broken(p, home) == ["supply"]


def test_needless_is_only_reported_when_all_consumers_are_known():
    """Where the place of a consumer is broken, its transfer may be right."""
    partly = plan(run("a", "d0", 0), send("v", "d0", "d1", 10), run("b", "nowhere", 20))
    assert broken(P, partly) == ["identity"]


def test_no_relays():
    p = problem("a b c", [value("v", "a", "b c")], cluster("d0 d1 d2"))
    tasks = [run("a", "d0", 0), run("b", "d1", 20), run("c", "d2", 40), send("v", "d0", "d1", 10)]
    assert broken(p, plan(*tasks, send("v", "d0", "d2", 20))) == []
    assert "leaves from the wrong devices, expected one of d0" in messages(
        p, plan(*tasks, send("v", "d1", "d2", 20))
    )


def test_a_send_needs_a_channel():
    p = problem("a b", [value("v", "a", "b")], cluster(gaps=[("d0", "d1")]))
    assert "is not allowed" in messages(p, GOOD)
    assert broken(p, plan(run("a", "d1", 0), send("v", "d1", "d0", 10), run("b", "d0", 20))) == []


def test_persistent_values_never_travel():
    p = problem("a b", [value("w", None, "a b")])
    assert broken(p, plan(run("a", "d0", 0), run("b", "d1", 0))) == []
    sent = plan(run("a", "d0", 0), run("b", "d1", 10), send("w", "d0", "d1", 0))
    assert broken(p, sent) == ["supply"]
    assert "never travels" in messages(p, sent)


def test_the_form_of_a_transfer():
    no_target = plan(*GOOD.runs, *GOOD.transfers, Transfer("v", ("d0",), (), "full", 0, 0))
    assert broken(P, no_target) == ["supply"]
    assert "the target of a transfer of 'v' is []" in messages(P, no_target)
    double = plan(*GOOD.runs, *GOOD.transfers, send("v", "d0+d0", "d1", 10))
    assert "the source of a transfer of 'v' is ['d0', 'd0']" in messages(P, double)


def test_times_of_a_transfer():
    no_times = plan(*GOOD.runs, send("v", "d0", "d1"))
    assert broken(P, no_times) == ["supply"]
    assert "no exact times" in messages(P, no_times)
    before = plan(*GOOD.runs, send("v", "d0", "d1", -5))
    assert "starts before time 0" in messages(P, before)
    assert "starts before 'a' stops" in messages(P, before)


def test_zero_bytes_over_no_latency_take_no_time():
    where = Cluster(
        (DeviceClass("c", None),),
        (Device("d0", "c", None), Device("d1", "c", None)),
        (Channel("d0", "d1", 0, 1),),
    )
    p = problem("a b", [value("v", "a", "b", 0)], where)
    assert (
        broken(p, plan(run("a", "d0", 0), send("v", "d0", "d1", 10, 10), run("b", "d1", 10))) == []
    )
    assert broken(p, plan(run("a", "d0", 0), run("b", "d1", 10))) == ["supply"]


# Gangs. x is 8 bytes in full and 4 in half; changes take 6 (full to half) and 7 (half to full).
PAIRS = "d0+d1 d1+d0 d1+d2 d2+d3"


def _gang(writes="full", reads="full", reader=2, **rest):
    table = {("full", "half"): 6, ("half", "full"): 7}
    rest.setdefault("reshard_ticks", table)
    a = option("o", gang=2, writes={"x": writes})
    b = option("o", gang=reader, reads={"x": reads})
    where = cluster("d0 d1 d2 d3", groups=PAIRS, gaps=rest.pop("gaps", ()))
    return problem(
        [op("a", options=(a,)), op("b", options=(b,))],
        [value("x", "a", "b", {"full": 8, "half": 4}, **rest)],
        where,
    )


def _moved(b_on, *transfers, b_at):
    return plan(run("a", "d0+d1", 0), *transfers, run("b", b_on, b_at))


def test_full_is_read_natively_on_a_part_of_the_site():
    assert broken(_gang(reader=1), _moved("d1", b_at=10)) == []
    assert broken(_gang(), _moved("d0+d1", b_at=10)) == []
    # The same devices in another order hold the same full copies.
    assert broken(_gang(), _moved("d1+d0", b_at=10)) == []


def test_full_is_sent_only_into_the_part_that_lacks_it():
    p = _gang()
    assert broken(p, _moved("d1+d2", send("x", "d1", "d2", 10), b_at=20)) == []
    assert broken(p, _moved("d1+d2", send("x", "d0", "d2", 10), b_at=20)) == []
    assert broken(p, _moved("d1+d2", b_at=20)) == ["supply"]
    both = [send("x", "d0", "d1", 10), send("x", "d0", "d2", 10)]
    assert "native copy is there already" in messages(p, _moved("d1+d2", *both, b_at=20))
    # The part that has it natively waits for the producer, too; here exclusion on d1 as well.
    early = _moved("d1+d2", send("x", "d0", "d2", 10), b_at=5)
    assert set(broken(p, early)) == {"exclusion", "supply"}
    assert broken(p, early).count("supply") == 2


def test_full_is_sent_to_each_device_on_its_own():
    p = _gang()
    each = [send("x", "d0", "d2", 10), send("x", "d1", "d3", 10)]
    assert broken(p, _moved("d2+d3", *each, b_at=20)) == []
    at_once = _moved("d2+d3", send("x", "d0+d1", "d2+d3", 10), b_at=20)
    assert broken(p, at_once) == ["supply"] * 3  # needless, and two that are missing


def test_a_send_leaves_from_one_device():
    found = messages(_gang(reader=1), _moved("d2", send("x", "d0+d1", "d2", 10), b_at=20))
    assert "leaves from the wrong devices, expected one of d0, d1" in found


def test_shards_are_read_natively_on_the_same_site_only():
    p = _gang("half", "half")
    assert broken(p, _moved("d0+d1", b_at=10)) == []
    assert broken(p, _moved("d1+d0", b_at=20)) == ["supply"]


def test_shards_move_position_by_position():
    """Both positions move 4 bytes: 2 + 4 ticks at the same time; no change of layout."""
    p = _gang("half", "half")
    assert broken(p, _moved("d2+d3", send("x", "d0+d1", "d2+d3", 10, 16, "half"), b_at=16)) == []
    assert broken(p, _moved("d1+d0", send("x", "d0+d1", "d1+d0", 10, 16, "half"), b_at=16)) == []
    # d0 -> d1 and d1 -> d2, so the channel d0 -> d2 may be missing, d1 -> d2 may not.
    shift = _moved("d1+d2", send("x", "d0+d1", "d1+d2", 10, 16, "half"), b_at=16)
    assert broken(_gang("half", "half", gaps=[("d0", "d2")]), shift) == []
    assert "not allowed" in messages(_gang("half", "half", gaps=[("d1", "d2")]), shift)


def test_shards_that_stay_do_not_move():
    """One position stays: only the other needs its channel."""
    a = option("o", gang=2, writes={"x": "half"})
    b = option("o", gang=2, reads={"x": "half"})
    p = problem(
        [op("a", options=(a,)), op("b", options=(b,))],
        [value("x", "a", "b", {"half": 4})],
        cluster("d0 d1 d2", groups="d0+d1 d0+d2", gaps=[("d0", "d1"), ("d1", "d0"), ("d0", "d2")]),
    )
    good = _moved("d0+d2", send("x", "d0+d1", "d0+d2", 10, 16, "half"), b_at=16)
    assert broken(p, good) == []


def test_a_change_in_place_takes_the_change_alone():
    p = _gang("full", "half")
    assert broken(p, _moved("d0+d1", send("x", "d0+d1", "d0+d1", 10, 16, "half"), b_at=16)) == []
    assert broken(p, _moved("d0+d1", send("x", "d0+d1", "d0+d1", 10, 22, "half"), b_at=22)) == [
        "supply"
    ]
    # To a part of the site: half becomes full on d1, 7 ticks, though d1 lacks a shard.
    p = _gang("half", "full", reader=1)
    assert broken(p, _moved("d1", send("x", "d0+d1", "d1", 10, 17), b_at=17)) == []


def test_a_change_elsewhere_takes_change_and_move():
    # full to half on d2+d3: 6 + (2 + 4) = 12 ticks.
    p = _gang("full", "half")
    assert broken(p, _moved("d2+d3", send("x", "d0+d1", "d2+d3", 10, 22, "half"), b_at=22)) == []
    # half to full on d1+d2: 7 + (2 + 8) = 17 ticks; only d2 has to receive.
    p = _gang("half", "full")
    good = _moved("d1+d2", send("x", "d0+d1", "d1+d2", 10, 27), b_at=27)
    assert broken(p, good) == []
    # Any one channel into d2 will do, but one there must be.
    assert broken(_gang("half", "full", gaps=[("d0", "d2")]), good) == []
    none = _gang("half", "full", gaps=[("d0", "d2"), ("d1", "d2")])
    assert "not allowed" in messages(none, good)


def test_a_change_that_the_table_lacks_is_not_allowed():
    p = _gang("full", "half", reshard_ticks={("half", "full"): 7})
    changed = _moved("d0+d1", send("x", "d0+d1", "d0+d1", 10, 16, "half"), b_at=16)
    assert "not allowed" in messages(p, changed)


def test_a_reshard_leaves_from_the_whole_site_in_order():
    p = _gang("full", "half")
    for source in ("d0", "d1+d0"):
        wrong = _moved("d0+d1", send("x", source, "d0+d1", 10, 16, "half"), b_at=16)
        assert "wrong devices, expected d0+d1" in messages(p, wrong)


def test_a_reshard_goes_to_the_whole_site_in_order():
    p = _gang("full", "half")
    for target in ("d0", "d1+d0"):
        wrong = _moved("d0+d1", send("x", "d0+d1", target, 10, 16, "half"), b_at=16)
        assert broken(p, wrong) == ["supply", "supply"]  # needless, and the right one missing


def test_readers_in_two_layouts_get_two_copies():
    a = option("o", gang=2)
    whole, cut = option("o", gang=2), option("o", gang=2, reads={"x": "half"})
    p = problem(
        [op("a", options=(a,)), op("b", options=(whole,)), op("c", options=(cut,))],
        [value("x", "a", "b c", {"full": 8, "half": 4}, reshard_ticks={("full", "half"): 6})],
        cluster(groups="d0+d1"),
    )
    tasks = [run("a", "d0+d1", 0), run("b", "d0+d1", 10), run("c", "d0+d1", 20)]
    change = send("x", "d0+d1", "d0+d1", 10, 16, "half")
    assert broken(p, plan(*tasks, change)) == []
    assert broken(p, plan(*tasks)) == ["supply"]


def test_a_layout_of_one_device_changes_without_holding_anything():
    a, b = option("o", writes={"x": "row"}), option("o", reads={"x": "column"})
    p = problem(
        [op("a", options=(a,)), op("b", options=(b,))],
        [value("x", "a", "b", {"row": 8, "column": 8}, reshard_ticks={("row", "column"): 3})],
    )
    good = plan(run("a", "d0", 0), send("x", "d0", "d0", 10, 13, "column"), run("b", "d0", 13))
    assert broken(p, good) == []
    assert broken(p, plan(run("a", "d0", 0), run("b", "d0", 13))) == ["supply"]
    assert set(verify(p, good).components) >= {"busy d0", "busy d1"}
    assert verify(p, good).components["busy d0"] == 20
