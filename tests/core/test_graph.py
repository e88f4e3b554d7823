from itertools import pairwise

import pytest

from milp_plan.core import FULL, UPDATE_KIND, Option

from .builders import graph, operator, value


def test_edges_follow_from_values():
    g = graph(
        "a b c",
        value("v", "a", "b c"),
        value("u", "a", "b"),
        value("t", "b", "c"),
        value("w", None, "c"),
    )
    assert g.predecessors == {"a": (), "b": ("a",), "c": ("a", "b")}
    assert g.successors == {"a": ("b", "c"), "b": ("c",), "c": ()}
    assert [v.name for v in g.inputs["c"]] == ["v", "t", "w"]
    assert [v.name for v in g.outputs["a"]] == ["v", "u"]
    assert g.value("w").persistent
    assert not g.value("v").persistent


def test_names():
    g = graph("a b", value("v", "a", "b"))
    assert g.operator("a").name == "a"
    assert g.has_operator("a")
    assert not g.has_operator("v")
    assert g.has_value("v")
    assert not g.has_value("a")
    for missing in (g.operator, g.value, g.operator("a").option):
        with pytest.raises(KeyError):
            missing("nobody")
    assert g.operator("a").option("o").duration_ticks == {"c": 10}


def test_layouts_are_full_where_not_named():
    option = Option("o", {"c": 1}, reads={"v": "half"}, writes={"u": "rows"})
    assert (option.layout_read("v"), option.layout_read("x")) == ("half", FULL)
    assert (option.layout_written("u"), option.layout_written("x")) == ("rows", FULL)


def test_payload_is_the_size_where_nothing_else_is_reported():
    v = value("v", "a", "b", bytes={FULL: 8, "half": 4}, transfer_bytes={"half": 1})
    assert (v.payload(FULL), v.payload("half")) == (8, 1)


def test_a_result_is_what_is_marked_or_what_nothing_reads():
    plain = {"u": "", "v": "b"}
    for kept, results in ((None, "u"), (True, "uv"), (False, "")):
        values = [value(name, "a", readers, kept=kept) for name, readers in plain.items()]
        assert "".join(v.name for v in values if v.is_kept) == results
        assert not value("w", None, "a", kept=kept).is_kept  # persistent values stay anyway


def test_other_readers_do_not_change_whether_a_value_is_kept():
    for kept in (None, True, False):
        for readers in ("", "b c"):
            before = value("v", "a", readers, kept=kept)
            for others in ((), ("c",)):
                after = before.read_by(others)
                assert (after.consumers, after.is_kept) == (others, before.is_kept)
                assert after.read_by(before.consumers).is_kept == before.is_kept
            assert before.read_by(before.consumers) == before


def test_topological_order_keeps_file_order_where_it_can():
    g = graph("d c b a", value("v", "a", "c"), value("u", "c", "d"))
    assert g.topological_order == ("b", "a", "c", "d")


def test_a_cycle_is_named_in_its_direction():
    g = graph("s a b c e", value("x", "s", "a"), value("y", "a", "b"), value("z", "b", "c"))
    assert g.topological_order
    ring = graph(
        "s a b c e",
        value("x", "s", "a"),
        value("y", "a", "b"),
        value("z", "b", "c"),
        value("back", "c", "a e"),
    )
    with pytest.raises(ValueError, match=r"^cycle: ") as error:
        _ = ring.topological_order
    walk = str(error.value).removeprefix("cycle: ").split(" -> ")
    assert walk[0] == walk[-1]
    assert set(walk) == {"a", "b", "c"}
    assert all(after in ring.successors[before] for before, after in pairwise(walk))


def test_groups_in_file_order():
    g = graph(
        [
            operator("a", group="g"),
            operator("b"),
            operator("c", group="h"),
            operator("d", group="g"),
        ]
    )
    assert g.groups == {"g": ("a", "d"), "h": ("c",)}


def test_networkx_graph_carries_values_on_edges():
    g = graph("a b", value("v", "a", "b"), value("u", "a", "b"), value("w", None, "b"))
    digraph = g.to_networkx()
    assert list(digraph.edges(data="values")) == [("a", "b", ["v", "u"])]
    assert digraph.nodes["a"] == {"kind": "forward", "group": None}


def _step():
    """Build a training step: forward f reads w, backward b makes gradient g, update u reads g."""
    half = Option("half", {"c": 5}, gang=2, reads={"g": "half", "w": "half"}, writes={"n": "half"})
    return graph(
        [
            operator("f", Option("o", {"c": 1}, reads={"w": "rows"}, writes={"x": "rows"})),
            operator("b", Option("o", {"c": 1}, reads={"x": "rows"}), group="mine"),
            operator("u", half, kind=UPDATE_KIND),
            operator("log", kind=UPDATE_KIND),
            operator("next"),
        ],
        value("w", None, "f u"),
        value("x", "f", "b"),
        value("g", "b", "u"),
        value("n", "u", "log next"),
    )


def test_unrolling_copies_all_but_updates_and_shared_values():
    g = _step().unroll(2)
    assert [op.name for op in g.operators] == [
        "f@0", "f@1", "b@0", "b@1", "u", "log", "next@0", "next@1",
    ]  # fmt: skip
    assert {v.name: (v.producer, v.consumers) for v in g.values} == {
        "w": (None, ("f@0", "f@1", "u")),
        "x@0": ("f@0", ("b@0",)),
        "x@1": ("f@1", ("b@1",)),
        "g@0": ("b@0", ("u",)),
        "g@1": ("b@1", ("u",)),
        "n": ("u", ("log", "next@0", "next@1")),
    }
    assert g.topological_order


def test_unrolled_copies_share_a_group_and_know_their_batch():
    g = _step().unroll(2)
    assert g.groups == {"f": ("f@0", "f@1"), "mine": ("b@0", "b@1"), "next": ("next@0", "next@1")}
    assert [op.micro_batch for op in g.operators] == [0, 1, 0, 1, None, None, 0, 1]


def test_unrolling_renames_layout_tables():
    g = _step().unroll(2)
    assert g.operator("f@1").options[0].reads == {"w": "rows"}
    assert g.operator("f@1").options[0].writes == {"x@1": "rows"}
    assert g.operator("b@0").options[0].reads == {"x@0": "rows"}
    update = g.operator("u").options[0]
    assert update.reads == {"g@0": "half", "g@1": "half", "w": "half"}
    assert update.writes == {"n": "half"}


def test_unrolling_once_still_names_the_batch():
    assert [op.name for op in graph("a").unroll(1).operators] == ["a@0"]


@pytest.mark.parametrize("count", [0, -1])
def test_unrolling_needs_a_batch(count):
    with pytest.raises(ValueError, match="at least 1"):
        graph("a").unroll(count)
