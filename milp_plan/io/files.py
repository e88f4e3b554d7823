"""Files: whole reads with clear findings, atomic writes, gzip by content."""

from __future__ import annotations

import gzip
import os
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from milp_plan.core import Finding, InputError

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Document:
    """A file that has been read.

    Parameters
    ----------
    path
        Where it came from.
    data
        Its content, decompressed.
    """

    path: Path
    data: bytes

    @property
    def file(self) -> str:
        """The path as findings name it."""
        return str(self.path)

    @cached_property
    def top_level(self) -> Mapping[str, msgspec.Raw]:
        """Top-level JSON members, still as text; empty when the file holds no JSON object."""
        try:
            return msgspec.json.decode(self.data, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return {}

    @property
    def marker(self) -> str | None:
        """The text of the top-level member ``format``, if there is one."""
        try:
            return msgspec.json.decode(self.top_level["format"], type=str)
        except (KeyError, msgspec.DecodeError):
            return None


def read_document(path: str | Path, what: str = "an instance file") -> Document:
    """Read a whole file, decompressing it when its content (not its name) is gzip.

    Parameters
    ----------
    path
        The file.
    what
        What the caller expects it to be, for the findings.

    Raises
    ------
    InputError
        The file is missing, a directory, unreadable, empty, or damaged gzip.
    """
    path = Path(path)

    def fail(found: str, remedy: str) -> InputError:
        return InputError([Finding("file", found, what, remedy, str(path))])

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise fail("no such file", "check the path") from None
    except IsADirectoryError:
        raise fail("a directory", "name the files in it") from None
    except OSError as error:
        raise fail(f"an unreadable file ({error.strerror})", "check path and permissions") from None
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise fail(f"damaged gzip data ({error})", "fetch or write the file again") from None
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if not data.strip():
        raise fail("an empty file", "fetch or write the file again")
    return Document(path, data)


def write_atomic(path: str | Path, data: bytes) -> None:
    """Write a file so that readers see the old content or the new one, never a part.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_document(path: str | Path, data: bytes) -> None:
    """Write a file atomically; compressed, without a time stamp, when its name ends in ``.gz``.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    packed = gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data
    write_atomic(path, packed)
