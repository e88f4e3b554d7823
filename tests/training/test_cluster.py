"""Clusters as classes of nodes."""

from __future__ import annotations

import pytest

from milp_plan.core import InputError
from milp_plan.kinds.training import training_cluster


@pytest.mark.parametrize(
    ("text", "devices", "groups"),
    [
        ("2048x8xH100", 16_384, [(2048, 8, "H100")]),
        ("64xA100", 64, [(8, 8, "A100")]),
        ("4xH100-80GB", 4, [(1, 4, "H100")]),
        ("8x8xA100+8x8xV100", 128, [(8, 8, "A100"), (8, 8, "V100")]),
        ("18x72xB200", 1296, [(18, 72, "B200")]),
    ],
)
def test_texts_are_groups_of_nodes(text: str, devices: int, groups: list) -> None:
    cluster = training_cluster(text)
    assert cluster.devices == devices
    assert [(g.nodes, g.node_devices, g.device.name) for g in cluster.groups] == groups


def test_a_group_has_links_in_its_nodes_and_between_them() -> None:
    (group,) = training_cluster("16x8xH100").groups
    assert [(level.devices, level.link.name) for level in group.levels] == [
        *((8, "NVLink4"), (128, "NDR"))
    ]


def test_devices_are_numbered_over_all_groups() -> None:
    cluster = training_cluster("8x8xA100+8x8xV100")
    assert [cluster.group_of(device) for device in (0, 63, 64, 127)] == [0, 0, 1, 1]


def test_groups_meet_over_the_slower_network() -> None:
    assert training_cluster("8x8xA100+8x8xV100").between.name == "EDR"


def test_memory_can_be_another() -> None:
    cluster = training_cluster("2x8xA100").with_memory(40 * 10**9)
    assert cluster.memory_bytes == 40 * 10**9


@pytest.mark.parametrize("text", ["H100", "12xH100", "0x8xH100", "8x8xH101", "8xH100+"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        training_cluster(text)
