"""``cluster``: shows clusters, and fits their links to measured times."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from .inputs import PATH
from .output import say, say_json, say_table
from .outputs import Content, Output, refuse


@click.group()
def cluster() -> None:
    """Show clusters that files describe, and calibrate their links."""


@cluster.command()
@click.argument("name", metavar="CLUSTER")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(name: str, as_json: bool) -> None:
    """Show a CLUSTER such as 4xH100 or mine.toml: devices, links, and where figures are from."""
    from milp_plan.cost.clusters import arranged, sources
    from milp_plan.io.cluster_file import cluster_of

    machines = arranged(cluster_of(name))
    origins = sources(machines)
    facts = {
        "name": machines.name,
        "devices": len(machines.devices),
        "channels": len(machines.channels),
        "communication": machines.communication.value,
        "figures": origins,
    }
    if as_json:
        say_json(facts, pretty=True)
        return
    rows = [
        [key, f"{entry:,}" if isinstance(entry, int) else str(entry)]
        for key, entry in facts.items()
    ]
    say_table(
        ["", ""], rows[1:-1] + [[key, text] for key, text in origins.items()], title=machines.name
    )


@cluster.command()
@click.argument("file", type=PATH)
@click.option(
    "--all-reduce",
    type=PATH,
    metavar="CSV",
    help="Columns devices, bytes, us, and link if several.",
)
@click.option("--send", type=PATH, metavar="CSV", help="Columns bytes, us, and link if several.")
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    help="When it was measured; written into the file.  [default: today]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("-o", "--output", type=PATH, required=True, help="File to write.")
def calibrate(
    *,
    file: Path,
    all_reduce: Path | None,
    send: Path | None,
    day: date | None,
    as_json: bool,
    output: Path,
) -> None:
    """Fit latency and bandwidth of the links of a cluster FILE to measured times.

    Times of an all-reduce are those of rings, 2 (n - 1) steps. What is least is the sum of relative
    errors: a few odd rows do not pull at the others.
    """
    from milp_plan.io.cluster_file import to_toml
    from milp_plan.io.files import write_document
    from milp_plan.io.measured_links import calibrated, read_all_reduces, read_sends

    readers = ((all_reduce, read_all_reduces), (send, read_sends))
    given = [path for path, _ in readers if path is not None]
    if not given:
        raise click.UsageError("give --all-reduce, --send, or both")
    refuse([Output("--output", output, Content.OTHER)], [file, *given])
    tables = [(path, read(path)) for path, read in readers if path is not None]
    when = f"{day:%Y-%m-%d}" if day is not None else date.today().isoformat()
    wire, fits = calibrated(file, tables, when)
    write_document(output, to_toml(wire))
    rows = [
        {
            "link": fit.link.name,
            "bytes_per_s": fit.link.bandwidth_bytes_per_s,
            "latency_ns": fit.link.latency_ns,
            "rows": fit.rows,
            "median_error": fit.median_error,
            "largest_error": fit.largest_error,
        }
        for fit in fits
    ]
    if as_json:
        say_json({"verb": "cluster calibrate", "output": str(output), "links": rows}, pretty=True)
        return
    heads = ["link", "GB/s", "us", "rows", "median error", "largest error"]
    texts = [
        [
            fit.link.name,
            f"{fit.link.bandwidth_bytes_per_s / 1e9:,.3f}",
            f"{fit.link.latency_ns / 1e3:,.3f}",
            str(fit.rows),
            f"{fit.median_error:.1%}",
            f"{fit.largest_error:.1%}",
        ]
        for fit in fits
    ]
    say_table(heads, texts, numeric=[1, 2, 3, 4, 5])
    say(f"{output}: {wire.name}, {len(fits)} of its links as measured")
