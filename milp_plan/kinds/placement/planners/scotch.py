"""Static mapping by Scotch, an outside program.

Source: Pellegrini, Roman (HPCN 1996); the Debian package ``scotch`` has the program. Scotch maps
graphs, balances vertex weights and minimises the weight of cut edges; it knows neither memory nor
hosts nor the largest load, which is what is scored afterwards.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..serial.graph import SerialGraph
from ..serial.value import fits

PROGRAMS = ("scotch_gmap", "gmap")
LIMIT_S = 60
LARGEST_WEIGHT = 1_000_000
"""Weights are whole numbers; their sum stays below this many, and vertices weigh at least 1."""

log = logging.getLogger(__name__)


def mapped(graph: SerialGraph) -> list[int] | None:
    """Return the payer of each class as Scotch maps it; ``None``, with the reason logged, if not.

    Vertices weigh the work of a class on a payer. A net becomes edges from its source to each of
    its readers, each with the net's cost.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        log.info("Scotch is not installed: none of %s is on the path", ", ".join(PROGRAMS))
        return None
    if None in graph.work:
        log.info("Scotch maps to accelerators alone, and some classes cannot run there")
        return None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "graph.grf").write_text(graph_text(graph))
        (folder / "target.tgt").write_text(f"cmplt {len(graph.payers)}\n")
        files = [str(folder / entry) for entry in ("graph.grf", "target.tgt", "result.map")]
        try:
            done = subprocess.run(
                [program, *files], capture_output=True, timeout=LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning("Scotch did not answer: %s", error)
            return None
        if done.returncode:
            log.warning("Scotch failed: %s", done.stderr.decode(errors="replace").strip())
            return None
        places = read_map(Path(files[2]).read_text(), len(graph))
    if places is None or not fits(graph, places):
        log.info("what Scotch maps does not fit into the memory of the accelerators")
        return None
    return places


def graph_text(graph: SerialGraph) -> str:
    """Return the problem as a Scotch source graph (user's guide, section 5.1)."""
    edges: list[dict[int, int]] = [{} for _ in range(len(graph))]
    for net in graph.nets:
        for reader in net.readers:
            for one, two in ((net.source, reader), (reader, net.source)):
                edges[one][two] = edges[one].get(two, 0) + net.ticks
    work = [ticks or 0 for ticks in graph.work]
    total = max(1, sum(work), sum(net.ticks * len(net.readers) for net in graph.nets))

    def weight(ticks: int) -> int:
        return max(1, ticks * LARGEST_WEIGHT // total)

    lines = ["0", f"{len(graph)} {sum(map(len, edges))}", "0 011"]
    for ticks, around in zip(work, edges, strict=True):
        ends = " ".join(f"{weight(cost)} {other}" for other, cost in sorted(around.items()))
        lines.append(f"{weight(ticks)} {len(around)} {ends}".rstrip())
    return "\n".join(lines) + "\n"


def read_map(text: str, count: int) -> list[int] | None:
    """Read a Scotch mapping: the number of lines, then vertex and target on each."""
    numbers = [int(entry) for entry in text.split()]
    if not numbers or numbers[0] != count or len(numbers) != 1 + 2 * count:
        log.warning("Scotch's answer cannot be read")
        return None
    found = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    return [found[number] for number in range(count)]
