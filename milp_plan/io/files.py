"""Reads and writes files: clear findings, atomic writes, gzip by content with size limits."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import msgspec

from milp_plan.core import Finding, InputError

_GZIP_MAGIC = b"\x1f\x8b"
_OTHER_ENCODINGS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Marks at the beginning of a file; those of UTF-32 begin like those of UTF-16."""

EXPANSION = "MILP_PLAN_EXPANSION"
"""Environment variable with the maximum bytes of a decompressed file."""

_FREE_BYTES = 256 << 20
_FREE_RATIO = 100
"""A file may expand to the first, or to this many times its size, whichever is more: instances
of ours shrink to a tenth or a thirtieth, a file made to fill memory to a thousandth."""


@dataclass(frozen=True)
class Document:
    """A file that has been read.

    Parameters
    ----------
    path
        Path of the file.
    data
        Content of the file, decompressed.
    """

    path: Path
    data: bytes

    @property
    def file(self) -> str:
        """The path as findings name it."""
        return str(self.path)

    @cached_property
    def top_level(self) -> Mapping[str, msgspec.Raw]:
        """Top-level JSON members, as undecoded text; empty if the file has no JSON object."""
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


def read_document(
    path: str | Path, what: str = "an instance file", *, text: bool = True
) -> Document:
    """Read a whole file; decompress it if its content (not its name) is gzip.

    Parameters
    ----------
    path
        The file.
    what
        Description of the expected file, for findings.
    text
        Whether it must be text in UTF-8.

    Raises
    ------
    InputError
        The file is missing, a directory, unreadable, empty, damaged gzip, expands to more than
        it may (:data:`EXPANSION`), or is no UTF-8 text.
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
        limit = _expansion_limit(len(data))
        try:
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise fail(f"damaged gzip data ({error})", "fetch or write the file again") from None
        if len(data) > limit:
            found = f"gzip data that expands to more than {limit} bytes"
            raise fail(found, f"set {EXPANSION} to the bytes it may take, if you trust the file")
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise fail("an empty file", "fetch or write the file again")
    if text and path.suffix == ".onnx" and data[:1] not in (b"{", b"["):
        remedy = f"make an instance from it: milp-plan capture {path} CLUSTER -o instance.json"
        raise fail("an ONNX model", remedy)
    if text and not data.isascii():
        strange = _not_text(data)
        if strange:
            raise fail(strange, "save it as UTF-8")
    return Document(path, data)


def _expansion_limit(packed_bytes: int) -> int:
    """Return the maximum decompressed size of a file of a size."""
    given = os.environ.get(EXPANSION)
    if given is None:
        return max(_FREE_BYTES, _FREE_RATIO * packed_bytes)
    if not given.isdecimal():
        remedy = f"write a number of bytes, or unset {EXPANSION}"
        raise InputError([Finding(EXPANSION, repr(given), "a number of bytes", remedy)])
    return int(given)


def _not_text(data: bytes) -> str | None:
    """Return a finding on data that is not UTF-8 text; ``None`` if it is."""
    for mark, encoding in _OTHER_ENCODINGS.items():
        if data.startswith(mark):
            return f"{encoding} text"
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"bytes that are not UTF-8 (byte {error.start}, line {line})"
    return None


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file for writing that gets its name, and replaces another file, when it is complete.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomic(path: str | Path, data: bytes) -> None:
    """Write a file so that readers see either the old content or the new one, never a part.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    with replacing(path) as handle:
        handle.write(data)


def write_parts(path: str | Path, parts: Iterable[bytes]) -> None:
    """Write a file atomically from parts, one at a time; compressed like documents.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    with replacing(path) as handle:
        if Path(path).suffix != ".gz":
            handle.writelines(parts)
            return
        with gzip.GzipFile("", "wb", fileobj=handle, mtime=0) as packed:
            packed.writelines(parts)


def write_document(path: str | Path, data: bytes) -> None:
    """Write a file atomically; compressed, without a time stamp, when its name ends in ``.gz``.

    Raises
    ------
    OSError
        The folder does not exist or cannot be written.
    """
    packed = gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data
    write_atomic(path, packed)
