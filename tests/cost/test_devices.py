"""Named devices and clusters."""

import pytest

from milp_plan.core import (
    CommunicationModel,
    ComputationGraph,
    InputError,
    Operator,
    Option,
    PlanningProblem,
)
from milp_plan.cost.clusters import cluster, plain, sources
from milp_plan.cost.devices import DEVICES, LINKS, device_spec, link_spec


def test_published_figures():
    """NVIDIA data sheets: dense bf16/fp16 rate, memory bandwidth, memory."""
    figures = {
        name: (spec.peak_flops_per_s, spec.memory_bytes_per_s, spec.memory_bytes)
        for name, spec in DEVICES.items()
    }
    assert figures == {
        "H100": (989_400_000_000_000, 3_350_000_000_000, 80_000_000_000),
        "H800": (989_400_000_000_000, 3_350_000_000_000, 80_000_000_000),
        "A100": (312_000_000_000_000, 2_039_000_000_000, 80_000_000_000),
        "A100-40GB": (312_000_000_000_000, 1_555_000_000_000, 40_000_000_000),
        "V100": (125_000_000_000_000, 900_000_000_000, 32_000_000_000),
        "H200": (989_500_000_000_000, 4_800_000_000_000, 141_000_000_000),
        "B200": (2_250_000_000_000_000, 8_000_000_000_000, 180_000_000_000),
        "B300": (2_250_000_000_000_000, 8_000_000_000_000, 288_000_000_000),
        "GB200": (2_500_000_000_000_000, 8_000_000_000_000, 186_000_000_000),
        "GB300": (2_500_000_000_000_000, 8_000_000_000_000, 279_000_000_000),
        "MI300X": (1_307_400_000_000_000, 5_300_000_000_000, 192_000_000_000),
        "TPU-v5e": (197_000_000_000_000, 819_000_000_000, 16_000_000_000),
        "L40S": (362_050_000_000_000, 864_000_000_000, 48_000_000_000),
        "RTX-4090": (165_200_000_000_000, 1_008_000_000_000, 24_000_000_000),
    }
    # both directions together are 900, 600 and 300 GB/s
    assert [LINKS[n].bandwidth_bytes_per_s for n in ("NVLink4", "NVLink3", "NVLink2")] == [
        450_000_000_000,
        300_000_000_000,
        150_000_000_000,
    ]


def test_every_figure_says_where_it_is_from():
    assert all(len(spec.source) > 20 for spec in [*DEVICES.values(), *LINKS.values()])
    reported = sources(cluster("2xB200+1xL40S"))
    assert list(reported) == ["device B200", "device L40S", "link NVLink5", "link HDR"]
    assert "half of 4.5 Pflop/s with sparsity" in reported["device B200"]
    assert reported["link HDR"].startswith("25000000000 byte/s x 850/1000, 5000 ns; InfiniBand HDR")


def test_figures_count_neither_for_equality_nor_for_fingerprints():
    reported = cluster("2xH100")
    assert reported == plain(reported) == reported
    assert hash(reported) == hash(plain(reported))
    assert reported != cluster("2xH100", link="PCIe4")
    graph = ComputationGraph((Operator("a", (Option("run", {"H100": 1}),)),), ())
    problems = [PlanningProblem("p", graph, machines) for machines in (reported, plain(reported))]
    assert problems[0].fingerprint == problems[1].fingerprint
    assert problems[0] == problems[1]


def test_every_device_names_known_links():
    for spec in DEVICES.values():
        assert {spec.link, spec.network} <= set(LINKS)


def test_one_node():
    built = cluster("4xH100")
    assert built.device_names == ("H100.0", "H100.1", "H100.2", "H100.3")
    assert len(built.channels) == 12
    assert {channel.bandwidth_bytes_per_s for channel in built.channels} == {360_000_000_000}
    assert built.sites(2) == (("H100.0", "H100.1"), ("H100.2", "H100.3"))
    assert built.sites(4) == (built.device_names,)
    assert built.sites(8) == ()
    assert built.communication is CommunicationModel.CHANNEL


def test_heterogeneous_pair_is_joined_by_the_slower_network():
    built = cluster("2xH100+2xA100", communication="delay")
    assert [entry.name for entry in built.device_classes] == ["H100", "A100"]
    between = built.channel("H100.0", "A100.1")
    assert between is not None
    assert between.bandwidth_bytes_per_s == LINKS["HDR"].achieved_bytes_per_s
    assert built.groups == (("H100.0", "H100.1"), ("A100.0", "A100.1"))
    assert built.communication is CommunicationModel.DELAY


def test_two_nodes_of_eight():
    built = cluster("16xA100")
    near, far = built.channel("A100.0", "A100.7"), built.channel("A100.7", "A100.8")
    assert near is not None
    assert far is not None
    assert near.bandwidth_bytes_per_s > 10 * far.bandwidth_bytes_per_s
    assert len(built.sites(8)) == 2
    assert not any("A100.7" in group and "A100.8" in group for group in built.groups)


def test_odd_node_leaves_last_device_without_group():
    assert cluster("3xV100").groups == (("V100.0", "V100.1"),)
    assert cluster("4xV100", node_devices=2).sites(4) == ()


def test_other_link_inside_nodes():
    built = cluster("2xA100", link="PCIe4")
    assert built.channels[0].bandwidth_bytes_per_s == 25_600_000_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4xB999", ["'B999'", "A100, A100-40GB, B200, B300, GB200, GB300, H100, H200"]),
        ("H100", ["<count>x<class>"]),
        ("0xH100", ["<count>x<class>"]),
        ("2xH100+", ["<count>x<class>"]),
        ("2xH100+1xH100", ["each class once"]),
        ("65xH100", ["65 devices", "at most 64"]),
    ],
)
def test_bad_clusters(text, words):
    with pytest.raises(InputError) as error:
        cluster(text)
    for word in words:
        assert word in str(error.value)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(InputError, match="NVLink4"):
        link_spec("string")
    with pytest.raises(InputError, match="V100"):
        device_spec("abacus")
