"""Clusters as TOML, and their links fitted to measured times."""

from pathlib import Path

import pytest

from milp_plan.core import CommunicationModel, InputError
from milp_plan.cost.clusters import arranged, cluster, plain
from milp_plan.io.cluster_file import cluster_of, read_cluster, read_wire, to_toml
from milp_plan.io.files import read_document
from milp_plan.io.measured_links import calibrated, read_all_reduces, read_sends

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "cluster"
HEAD = 'format = "milp-plan-cluster"\nversion = 1\nname = "mine"\n'


def written(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_nested_links():
    """The innermost node or group that holds two devices says what joins them."""
    built = read_cluster(EXAMPLES / "two-racks.toml")
    assert built.device_names == (
        *("left0.0", "left0.1", "left1.0", "left1.1"),
        *("right.0", "right.1", "right.2", "right.3"),
    )
    rates = {
        ends: built.channel(*ends).bandwidth_bytes_per_s
        for ends in (
            ("left0.0", "left0.1"),
            ("left0.0", "left1.1"),
            ("left0.0", "right.3"),
            ("right.0", "right.3"),
        )
    }
    assert list(rates.values()) == [360 * 10**9, 42_500 * 10**6, 10_625 * 10**6, 25_600 * 10**6]
    assert built.channel("right.3", "left0.0").latency_ticks == 9_000
    assert [len(group) for group in built.groups] == [2, 2, 2, 2, 4]
    assert built.specs["H100-PCIe"].peak_flops_per_s == 756 * 10**12
    assert [entry.memory_bytes for entry in built.device_classes] == [80 * 10**9] * 2


def test_a_file_says_what_a_name_says(tmp_path):
    """Equal nodes on the classes' own links are the named cluster but for names of devices."""
    nodes = '[[nodes]]\nname = "a"\ncount = 2\ndevices = "8xA100"\n'
    own = read_cluster(written(tmp_path, HEAD + 'link = "HDR"\n' + nodes))
    named = cluster("16xA100")
    new = dict(zip(own.device_names, named.device_names, strict=True))
    renamed = [
        (new[c.source], new[c.target], c.latency_ticks, c.bandwidth_bytes_per_s)
        for c in own.channels
    ]
    asked = [(c.source, c.target, c.latency_ticks, c.bandwidth_bytes_per_s) for c in named.channels]
    assert sorted(renamed) == sorted(asked)
    assert [tuple(new[n] for n in group) for group in own.groups] == list(named.groups)
    assert plain(own).device_classes == plain(named).device_classes


def test_without_a_link_nodes_are_not_joined(tmp_path):
    nodes = '[[nodes]]\nname = "a"\ncount = 2\ndevices = "1xA100"\n'
    assert read_cluster(written(tmp_path, HEAD + nodes)).channels == ()


def test_communication_is_the_files_unless_asked():
    found = cluster_of(str(EXAMPLES / "two-racks.toml"))
    assert arranged(found).communication is CommunicationModel.CHANNEL
    assert arranged(found, "delay").communication is CommunicationModel.DELAY
    with pytest.raises(InputError, match="the file of the cluster says them"):
        arranged(found, None, "PCIe4")


def test_every_finding_at_once(tmp_path):
    text = HEAD.replace("mine", "../mine") + (
        '[[links]]\nname = "l"\ngb_per_s = 0\nus = -1\nsource = "s"\nspeed = 4\n'
        '[[nodes]]\nname = "a"\ndevices = 4\n'
    )
    with pytest.raises(InputError) as error:
        read_cluster(written(tmp_path, text))
    places = {finding.where for finding in error.value.findings}
    assert places == {"links[0].us", "links[0].speed", "nodes[0].devices"}
    text = (
        text.replace("-1", "1")
        .replace("speed = 4\n", "shared_by = 99\n")
        .replace("devices = 4", 'devices = "4xH1OO"')
    )
    with pytest.raises(InputError) as error:
        read_cluster(written(tmp_path, text))
    places = [finding.where for finding in error.value.findings]
    assert places == ["links[0].gb_per_s", "links[0].shared_by", "name"]
    assert all("mine.toml" in str(finding) for finding in error.value.findings)


NODES = '[[nodes]]\nname = "a"\ncount = 2\ndevices = "2xH100"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[nodes]]\nname = "a"\ndevices = "1xH100+1xA100"\n', ["nodes[0].link", "PCIe4"]),
        ('[[nodes]]\nname = "a"\ndevices = "1xH1OO"\n', ["nodes[0].devices", "'H1OO'"]),
        (f'[[nodes]]\nname = "a"\ndevices = "{"9" * 5000}xH100"\n', ["nodes[0].devices"]),
        (NODES.replace("2\n", "999999999999\n"), ["at most 64 in all"]),
        (NODES + '[[nodes]]\nname = "a1"\ndevices = "1xH100"\n', ["'a1' twice"]),
        ('link = "NDRR"\n' + NODES, ["link: found 'NDRR'", "did you mean 'NDR'?"]),
        (NODES + '[[groups]]\nname = "g"\nlink = "NDR"\nmembers = ["b"]\n', ["groups[0].members"]),
        (
            NODES + '[[groups]]\nname = "g"\nlink = "NDR"\nmembers = ["a", "a1"]\n',
            ["'a1', which is in 'g' as well"],
        ),
        (NODES + '[[groups]]\nname = "g"\nlink = "NDR"\nmembers = ["g"]\n', ["listed before"]),
        ("", ["nodes", "add the field"]),
        ("x = [", ["TOML"]),
    ],
)
def test_what_is_refused(tmp_path, text, words):
    with pytest.raises(InputError) as error:
        read_cluster(written(tmp_path, HEAD + text))
    for word in (*words, "mine.toml"):
        assert word in str(error.value)


def test_a_written_file_says_the_same(tmp_path):
    wire = read_wire(read_document(EXAMPLES / "two-racks.toml"))
    path = tmp_path / "again.toml"
    path.write_bytes(to_toml(wire))
    assert read_wire(read_document(path)) == wire


# -- calibrated ------------------------------------------------------------------------------------


def test_links_are_fitted_and_say_where_from(tmp_path):
    """Times made of a latency and a bandwidth give both back, though one row is far off."""
    sizes = [2**k for k in range(12, 30, 3)]
    sends = "link,bytes,us\n" + "".join(f"rail,{b},{7.5 + b / 40e3}\n" for b in sizes)
    sends += "rail,4096,900\n"
    rings = "".join(f"NVLink4,8,{b},{14 * 3 + 14 / 8 * b / 300e3}\n" for b in sizes)
    tables = [
        written(tmp_path, sends, "sends.csv"),
        written(tmp_path, "link,devices,bytes,us\n" + rings, "rings.csv"),
    ]
    given = [(tables[0], read_sends(tables[0])), (tables[1], read_all_reduces(tables[1]))]
    wire, fits = calibrated(EXAMPLES / "two-racks.toml", given, "2026-11-23")
    rail, nvlink = (fit.link for fit in fits)
    assert abs(rail.latency_ns - 7_500) <= 1
    assert rail.bandwidth_bytes_per_s == pytest.approx(40 * 10**9, rel=1e-6)
    assert abs(nvlink.latency_ns - 3_000) <= 1
    assert nvlink.bandwidth_bytes_per_s == pytest.approx(300 * 10**9, rel=1e-6)
    assert rail.source == "measured: sends.csv, 7 rows, 2026-11-23"
    assert fits[0].median_error < 1e-3 < 0.9 < fits[0].largest_error
    path = tmp_path / "calibrated.toml"
    path.write_bytes(to_toml(wire))
    channel = read_cluster(path).channel("left0.0", "left0.1")
    assert channel.bandwidth_bytes_per_s == nvlink.bandwidth_bytes_per_s
    assert [link.name for link in wire.links] == ["rail", "spine", "NVLink4"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bytes,time\n1,1\n", ["no column 'us'"]),
        ("bytes,us\n", ["no row"]),
        ("bytes,us\n1.5,3\n-1,0\n4,nan\n", ["row 2, bytes", "row 3, us", "row 4, us"]),
        ("bytes,us\n4,3\n9,4\n", ["row 2, link", "rail"]),
        ("link,bytes,us\nrails,4,3\n", ["'rails'"]),
        ("link,bytes,us\nrail,4,3\nrail,4,4\n", ["1 size of messages"]),
        ("link,bytes,us\nrail,4,3\nrail,4000000,3\n", ["do not grow with bytes"]),
        ("link,bytes,us\nrail,1,1000000\nrail,2,2000000\n", ["check the units"]),
    ],
)
def test_tables_that_are_refused(tmp_path, text, words):
    path = written(tmp_path, text, "sends.csv")
    with pytest.raises(InputError) as error:
        calibrated(EXAMPLES / "two-racks.toml", [(path, read_sends(path))], "2026-11-23")
    for word in words:
        assert word in str(error.value)
