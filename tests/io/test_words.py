"""What readers say is wrong: in the file's own words, with the line where quotes are at fault."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from milp_plan.core import InputError
from milp_plan.io.cluster_file import read_cluster
from milp_plan.io.measured_links import read_sends
from milp_plan.io.pipeline_file import read_pipeline_file
from milp_plan.io.suite_file import read_suite
from milp_plan.kinds.rematerialisation.problem import RematerialisationProblem
from milp_plan.run.kinds import formats, kinds, read
from tests.cli.test_kinds import SAMPLES

from .samples import store

NODES = [{"id": n, "name": name, "cost_cpu": 2.5, "cost_ram": 100} for n, name in enumerate("abc")]
LINES = [{"source": 0, "target": 1}, {"source": 1, "target": 2}]
TRAINING = {"directed": True, "multigraph": False, "graph": {}, "nodes": NODES}
LAYERED = {
    "graph": {"name": "g", "order": ["a", "b", "c"]},
    "nodes": [{"name": name, "duration": 2, "out_cost": 3} for name in "abc"],
}
ENDS = [{"0": "a", "1": "b"}, {"0": "b", "1": "c"}]
COST = {"cpuLatency": 3.5, "fpgaLatency": 1, "size": 5}
DNN = {
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "maxSizePerFPGA": 100,
    "nodes": [{"id": n, "supportedOnFpga": 1, "name": f"n{n}", **COST} for n in range(3)],
    "edges": [{"sourceId": n, "destId": n + 1, "cost": 2} for n in range(2)],
}
LAYOUTS = {
    "format": "milp-plan-resharding-layouts",
    "version": 1,
    "name": "turn",
}
FOREIGN: dict[str, Any] = {
    "links": {**TRAINING, "links": LINES},
    "edges": {**TRAINING, "edges": LINES},
    "layered links": {**LAYERED, "links": ENDS},
    "layered edges": {**LAYERED, "edges": ENDS},
    "dnn-partitioning": DNN,
}
"""Files of other programs, beside those of the samples of each kind."""

WRONG = (-1, 0.5, 10**30, 1e300, "x", None, [], {}, "<gone>", "<twice>")
PLAIN = {"line", "column", "file", "top", "level", "and", "to", "at", "degree", "x"}
"""Words that say where, whatever the format; ``x`` is what the damage wrote."""


def documents(folder: Path) -> Iterator[tuple[str, Path]]:
    """A good file of every format of problems that is read, by its name."""
    for name, sample in SAMPLES.items():
        home = folder / name
        home.mkdir()
        yield name, sample.write(home)
    for name, document in FOREIGN.items():
        yield name, store(folder, document, f"{name.replace(' ', '-')}.json")
    other = folder / "spans.20.csv"
    other.write_text("buffer,begin,end,size,alignment\na,0,3,4,1\nb,3,9,4,2\n")
    yield "begin and end", other


def test_there_is_a_file_of_every_format(tmp_path: Path) -> None:
    from milp_plan.io.files import read_document

    found = set()
    for _, path in documents(tmp_path):
        document = read_document(path)
        found.add(next(entry.name for _, entry in formats() if entry.can_read(document)))
    built_from_layouts = {"resharding-layouts"}  # of ours, with members of its own
    assert found == {entry.name for _, entry in formats()} - built_from_layouts
    assert len(SAMPLES) == len(kinds())


def damaged(text: str) -> Iterator[str]:
    """The text with one member, or one cell, that cannot be right."""
    try:
        document = json.loads(text)
    except ValueError:
        for match in re.finditer(r"[\w.]+", text):
            for word in ("-1", "0.5", "9" * 30, "x", ""):
                yield text[: match.start()] + word + text[match.end() :]
        return
    for path in _paths(document):
        for wrong in WRONG:
            made = copy.deepcopy(document)
            home = made
            for step in path[:-1]:
                home = home[step]
            if wrong == "<gone>":
                del home[path[-1]]
            elif wrong == "<twice>":
                if isinstance(home, list):
                    home.append(home[path[-1]])
            else:
                home[path[-1]] = wrong
            yield json.dumps(made)


def _paths(item: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(item, dict):
        for name, entry in item.items():
            yield from _paths(entry, (*path, name))
    elif isinstance(item, list):
        for place, entry in enumerate(item[:1]):
            yield from _paths(entry, (*path, place))


@pytest.mark.parametrize("name", [*SAMPLES, *FOREIGN, "begin and end"])
def test_findings_use_the_words_of_the_file(name: str, tmp_path: Path) -> None:
    """They said ``bytes`` where the file says ``cost_ram``, ``flows`` where it says edges."""
    path = dict(documents(tmp_path))[name]
    good = path.read_text()
    known = set(re.findall(r"\w+", good)) | PLAIN
    known |= {word.removesuffix("s") for word in known}  # one of the nodes, of the edges
    seen = 0
    for text in damaged(good):
        path.write_text(text)
        try:
            read(path)
        except InputError as error:
            for finding in error.findings:
                seen += 1
                stated = re.sub(r"'[^']*'|\"[^\"]*\"", "", finding.where)
                words = set(re.findall(r"[A-Za-z_]\w*", stated))
                lacking = finding.expected == "this field" or finding.found in ("neither", "both")
                unknown = finding.found == "an unknown field"
                assert words <= known or lacking or unknown, finding
                assert finding.remedy, finding
    assert seen > 50


@pytest.mark.parametrize(("nodes", "lines"), [(TRAINING, LINES), (LAYERED, ENDS)])
def test_lines_of_a_graph_have_either_name(nodes: Any, lines: Any, tmp_path: Path) -> None:
    """networkx writes ``edges`` from 3.4 on, ``links`` before."""
    old = read(store(tmp_path, {**nodes, "links": lines}, "g.json"))[1]
    new = read(store(tmp_path, {**nodes, "edges": lines}, "g.json"))[1]
    assert isinstance(old, RematerialisationProblem)
    assert old == new
    for given, found in (({}, "neither"), ({"links": lines, "edges": lines}, "both")):
        with pytest.raises(InputError, match=f"edges and links: found {found}"):
            read(store(tmp_path, {**nodes, **given}, "g.json"))


def test_networkx_writes_what_is_read(tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph([(0, 1), (1, 2)])
    for place, name in enumerate("abc"):
        graph.nodes[place].update(name=name, cost_cpu=2.5, cost_ram=100)
    path = store(tmp_path, networkx.node_link_data(graph), "links.json")
    assert read(path)[1] == read(store(tmp_path, FOREIGN["links"], "links.json"))[1]


# -- quotes and halves of characters --------------------------------------------------------------

TOML: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "jobs": ('format = "milp-plan-jobs"\nversion = 1\nname = "a"\n', read),
    "pipeline": ('time_unit = "ms"\n[[pieces]]\nforward = 1\n', read_pipeline_file),
    "cluster": ('name = "a"\n', read_cluster),
    "suite": ('title = "a"\nabout = "b"\n', read_suite),
}


@pytest.mark.parametrize("name", TOML)
@pytest.mark.parametrize("quotes", ['"', "'", '"""'])
def test_an_open_quote_of_toml_is_named_with_its_line(
    name: str, quotes: str, tmp_path: Path
) -> None:
    good, reader = TOML[name]
    lines = good.count("\n")
    path = tmp_path / "file.toml"
    path.write_text(f"{good}note = {quotes}open\n")
    with pytest.raises(InputError) as caught:
        reader(path)
    (finding,) = caught.value.findings
    assert finding.file == str(path)
    assert re.match(f"line {lines + 1}( column [0-9]+)?$", finding.where)
    assert "a quotation mark that is not closed" in finding.found
    assert finding.remedy == "close it"


@pytest.mark.parametrize("reader", [read, read_sends], ids=["buffers", "sends"])
def test_an_open_quote_of_csv_is_named_with_its_line(reader: Any, tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    heads = {read: "id,lower,upper,size\na,0,3,4", read_sends: "bytes,us\n1,2"}
    path.write_text(heads[reader] + '\n"b,1,2,3\nc,4,5,6\n')
    with pytest.raises(InputError) as caught:
        reader(path)
    (finding,) = caught.value.findings
    assert (finding.file, finding.where) == (str(path), "line 3")
    assert finding.found == 'a quotation mark " that is not closed'
    assert finding.remedy == "close or remove it"


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "\\ud83d\\ud83d", "\\ude00\\ud83d"])
@pytest.mark.parametrize("name", [*SAMPLES, *FOREIGN])
def test_half_a_character_is_named_with_its_line(name: str, half: str, tmp_path: Path) -> None:
    path = dict(documents(tmp_path))[name]
    text = path.read_text()
    if path.suffix != ".json":
        return  # TOML refuses it with the line, CSV has no escapes
    text = json.dumps(json.loads(text), indent=1)
    match = next(re.finditer(r'"name": "', text))
    path.write_text(text[: match.end()] + half + text[match.end() :])
    with pytest.raises(InputError) as caught:
        read(path)
    (finding,) = caught.value.findings
    line = text.count("\n", 0, match.end()) + 1
    assert finding.where.startswith(f"line {line} column ")
    assert "a lone surrogate" in finding.found
    path.write_text(text[: match.end()] + "\\ud83d\\ude00" + text[match.end() :])
    read(path)  # both halves are a character
