"""Public benchmark files: their folder, their checksums, and their download.

Nothing of them comes with this package. Each list in ``public/`` pins the contents of its files by
SHA-256; pooch downloads, checks before a file takes its name, and downloads again what has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from milp_plan.core import BackendUnavailableError, Finding, InputError

VARIABLE = "MILP_PLAN_BENCHMARKS"
"""Environment variable with the folder, for tests, suites and studies."""

CACHE = "milp-plan"
"""Name of the folder in the user's cache."""

TIMEOUT_S = 30
"""Timeout of a download in seconds without an answer."""

_LISTS = Path(__file__).parent / "public"


@dataclass(frozen=True)
class PublicFile:
    """One file.

    Parameters
    ----------
    name
        Path in the folder of its set.
    sha256, size_bytes
        Of its contents.
    source
        Path below the set's address.
    """

    name: str
    sha256: str
    size_bytes: int
    source: str


@dataclass(frozen=True)
class PublicSet:
    """Files that belong together.

    Parameters
    ----------
    name
        Name of the set and of its folder.
    title, licence
        Readable title.
    page
        Address of a page about it.
    address
        Address of a commit, whose files do not change.
    """

    name: str
    title: str
    licence: str
    page: str
    address: str

    @cached_property
    def files(self) -> tuple[PublicFile, ...]:
        """The list of the set."""
        lines = (_LISTS / f"{self.name}.txt").read_text(encoding="utf-8").splitlines()
        rows = [line.split() for line in lines if line and not line.startswith("#")]
        return tuple(
            PublicFile(row[0], row[1], int(row[2]), row[3] if len(row) > 3 else row[0])
            for row in rows
        )

    def matching(self, patterns: Sequence[str]) -> tuple[PublicFile, ...]:
        """Return the files that match one of the patterns; all if there are none.

        Raises
        ------
        InputError
            A pattern matches no file.
        """
        for pattern in patterns:
            if not any(fnmatchcase(file.name, pattern) for file in self.files):
                names = ", ".join(file.name for file in self.files[:3])
                expected = f"a pattern for files of {self.name!r}, such as {names}"
                raise InputError(
                    [Finding("pattern", repr(pattern), expected, "`milp-plan data list` has all")]
                )
        return tuple(
            file
            for file in self.files
            if not patterns or any(fnmatchcase(file.name, pattern) for pattern in patterns)
        )


SETS = {
    entry.name: entry
    for entry in (
        PublicSet(
            "iopddl",
            "Sharding contest of ASPLOS/EuroSys 2025: seven of its instances",
            "Apache-2.0",
            "https://github.com/google/iopddl",
            "https://raw.githubusercontent.com/google/iopddl/"
            "b31477835cc841f70e9b8b6ca027e1fa8d871988",
        ),
        PublicSet(
            "dnn-partitioning",
            "Device placement, Tarnawski et al. (NeurIPS 2020): graphs and experts' plans",
            "MIT",
            "https://github.com/msr-fiddle/dnn-partitioning",
            "https://raw.githubusercontent.com/msr-fiddle/dnn-partitioning/"
            "b207b6ad27a1407d321f1e028cea96d7f2c90e3e",
        ),
    )
}
"""Sets that can be downloaded."""


def cache_folder() -> Path:
    """Return the folder that is used unless one is named.

    Raises
    ------
    BackendUnavailableError
        pooch is not installed.
    """
    return Path(_pooch().os_cache(CACHE))


def download(
    public: PublicSet,
    folder: Path,
    files: Sequence[PublicFile],
    *,
    address: str | None = None,
    on_file: Callable[[str], None] | None = None,
) -> tuple[str, ...]:
    """Download the files of a set into a folder of its name; correct files stay.

    Parameters
    ----------
    public
        The set.
    folder
        The user's folder.
    files
        Files of the set.
    address
        Another address of the same files, such as a mirror.
    on_file
        Called with a file's name before it is downloaded.

    Returns
    -------
    tuple
        Names of the files that were downloaded.

    Raises
    ------
    InputError
        A file is missing there, does not arrive whole, or has other contents; the others were
        still tried, and nothing incomplete is left behind.
    BackendUnavailableError
        pooch is not installed.
    """
    pooch = _pooch()
    base = (address or public.address).rstrip("/")
    brought: list[str] = []

    def bring(url: str, output: str, manager: Any) -> None:
        name = next(file.name for file in files if f"{base}/{file.source}" == url)
        if on_file is not None:
            on_file(name)
        pooch.HTTPDownloader(timeout=TIMEOUT_S, chunk_size=2**16)(url, output, manager)
        brought.append(name)

    manager = pooch.create(
        path=folder / public.name,
        base_url=base + "/",
        registry={file.name: f"sha256:{file.sha256}" for file in files},
        urls={file.name: f"{base}/{file.source}" for file in files},
    )
    findings = []
    for file in files:
        try:
            manager.fetch(file.name, downloader=bring)
        except (OSError, ValueError) as error:  # what requests raises, and a wrong checksum
            findings.append(_finding(f"{base}/{file.source}", file, error))
            brought = [name for name in brought if name != file.name]
    if findings:
        raise InputError(findings)
    return tuple(brought)


def _finding(url: str, file: PublicFile, error: Exception) -> Finding:
    expected = f"{file.size_bytes:,} bytes with SHA-256 {file.sha256}"
    response = getattr(error, "response", None)
    if response is not None:
        found = f"HTTP status {response.status_code}"
    elif isinstance(error, ValueError):
        found = "other contents"
    else:
        found = f"no complete answer ({type(error).__name__})"
    remedy = "try again; if it stays, get the file from the set's page, or name a mirror"
    return Finding(url, found, expected, remedy)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise BackendUnavailableError(
            "downloads need pooch, which is not installed: pip install 'milp_plan[data]'"
        ) from error
    pooch.get_logger().setLevel("ERROR")  # we say ourselves what is downloaded
    return pooch
