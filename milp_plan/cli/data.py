"""``data``: downloads and checks public benchmark files, which the package does not contain."""

from __future__ import annotations

import os
from pathlib import Path

import click

from .inputs import PATH
from .output import note, say, say_json, say_table

NAMES = ("iopddl", "dnn-partitioning")
"""Names of the sets of :data:`milp_plan.io.public_data.SETS`, which is imported late."""


@click.group()
def data() -> None:
    """Download public benchmark files from pinned addresses, with pinned checksums."""


@data.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_(as_json: bool) -> None:
    """List the sets that can be downloaded, and their files."""
    from milp_plan.io.public_data import SETS

    if as_json:
        content = {
            name: {
                "title": entry.title,
                "licence": entry.licence,
                "page": entry.page,
                "address": entry.address,
                "files": [vars(file) for file in entry.files],
            }
            for name, entry in SETS.items()
        }
        say_json(content, pretty=True)
        return
    for name, entry in SETS.items():
        rows = [[file.name, f"{file.size_bytes:,}"] for file in entry.files]
        say(f"{name}: {entry.title}; {entry.licence}, {entry.page}")
        say_table(["file", "bytes"], rows, numeric=[1])


@data.command()
@click.argument("name", type=click.Choice(NAMES), metavar="NAME")
@click.option(
    "--only",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only files whose names match. Repeatable.",
)
@click.option(
    "--folder",
    type=PATH,
    help="Where the set's folder goes; $MILP_PLAN_BENCHMARKS if it is set, else the user's cache.",
)
@click.option("--address", metavar="URL", help="Another place with the same files: a mirror.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def get(
    name: str,
    patterns: tuple[str, ...],
    folder: Path | None,
    address: str | None,
    as_json: bool,
) -> None:
    """Download the set NAME. Files with the right checksum stay, others are replaced."""
    from milp_plan.io.public_data import SETS, VARIABLE, cache_folder, download

    public = SETS[name]
    files = public.matching(patterns)
    known = os.environ.get(VARIABLE)
    home = (folder or (Path(known) if known else cache_folder())).absolute()
    brought = download(
        public, home, files, address=address, on_file=lambda file: note(f"downloading {file}")
    )
    if as_json:
        paths = [str(home / name / file.name) for file in files]
        say_json({"set": name, "folder": str(home), "files": paths, "downloaded": list(brought)})
        return
    there = len(files) - len(brought)
    say(f"{name}: {len(files)} files in {home / name}, {len(brought)} new, {there} there already")
    if known is None or Path(known).absolute() != home:
        say(f"for tests, suites and studies: export {VARIABLE}={home}")
