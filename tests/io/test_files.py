import gzip
import os

import pytest

from milp_plan.core import InputError
from milp_plan.io import files, native
from milp_plan.io.files import write_atomic
from milp_plan.kinds.schedule.formats import read, write

from .samples import full_problem


def finding_of(path):
    with pytest.raises(InputError) as caught:
        read(path)
    (finding,) = caught.value.findings
    assert finding.file == str(path)
    assert finding.remedy
    return finding


def test_gzip_is_found_by_content(tmp_path):
    path = tmp_path / "instance.json"
    path.write_bytes(gzip.compress(native.to_json(full_problem())))
    assert read(path) == full_problem()


def test_byte_order_mark_is_no_defect(tmp_path):
    path = tmp_path / "instance.json"
    path.write_bytes(b"\xef\xbb\xbf" + native.to_json(full_problem()))
    assert read(path) == full_problem()


def test_missing_file(tmp_path):
    assert finding_of(tmp_path / "none.json").found == "no such file"


def test_directory(tmp_path):
    assert finding_of(tmp_path).found == "a directory"


def test_path_through_a_file(tmp_path):
    (tmp_path / "a").write_text("x")
    assert finding_of(tmp_path / "a" / "b.json").found.startswith("an unreadable file")


@pytest.mark.parametrize("content", [b"", b" \n\t", gzip.compress(b"", mtime=0)])
def test_empty_file(tmp_path, content):
    path = tmp_path / "empty.json"
    path.write_bytes(content)
    assert finding_of(path).found == "an empty file"


@pytest.mark.parametrize("damage", [lambda d: d[:40], lambda d: d[:12] + b"\xff" * 9 + d[21:]])
def test_damaged_gzip(tmp_path, damage):
    path = tmp_path / "bad.json.gz"
    path.write_bytes(damage(gzip.compress(native.to_json(full_problem()))))
    assert finding_of(path).found.startswith("damaged gzip data")


@pytest.mark.parametrize("part", [0.02, 0.3, 0.5, 0.97])
def test_truncated_json(tmp_path, part):
    text = native.to_json(full_problem())
    path = tmp_path / "cut.json"
    path.write_bytes(text[: int(len(text) * part)])
    finding = finding_of(path)
    assert finding.found.startswith("text that ends too early")
    assert finding.where.startswith("line ")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"format": "milp-plan-instance",, }', "Expecting property name"),
        (b'{"a": "\xff"}', "bytes that are not UTF-8"),
        (b"[" * 200_000, "lists nested too deeply"),
        (b'{"a": ' + b"7" * 5000 + b"}", "Exceeds the limit"),
        (b"hello", "content of no known format"),
        (b"[1, 2]", "content of no known format"),
        (b'{"nodes": [], "edges": []}', "JSON with the members nodes, edges"),
        (b'{"format": "milp-plan-plan"}', "a plan file"),
        (b'{"format": "milp-plan-instanze"}', "'milp-plan-instanze'"),
        (b'{"format": 7}', "JSON with the members format"),
    ],
)
def test_no_instance(tmp_path, content, found):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    assert finding_of(path).found.startswith(found)


def test_a_mistyped_marker_gets_a_suggestion(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"format": "milp-plan-instanze"}')
    assert finding_of(path).remedy == "did you mean 'milp-plan-instance'?"


def test_written_gzip_depends_on_content_only(tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        write(full_problem(), tmp_path / name)
    first, second = (tmp_path / name for name in ("a.json.gz", "b.json.gz"))
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == native.to_json(full_problem())
    assert read(first) == full_problem()


def test_atomic_write_replaces(tmp_path):
    path = tmp_path / "file"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_content(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomic(path, b"old")

    def full_disk(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def written(tmp_path, data):
    path = tmp_path / "instance.json"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_other_encodings_are_named(tmp_path, encoding):
    text = native.to_json(full_problem()).decode().encode(encoding)
    finding = finding_of(written(tmp_path, text))
    assert finding.found == f"{encoding.upper()} text"
    assert finding.remedy == "save it as UTF-8"


def test_bytes_that_are_no_text_are_found_by_line(tmp_path):
    finding = finding_of(written(tmp_path, b'{"format": "milp-plan-instance",\n "name": "\xff"}'))
    assert finding.found == "bytes that are not UTF-8 (byte 43, line 2)"


def test_files_made_to_fill_memory_are_refused(tmp_path, monkeypatch):
    bomb = written(tmp_path, gzip.compress(b" " * (300 << 20), compresslevel=1))
    finding = finding_of(bomb)
    assert finding.found.startswith("gzip data that expands to more than ")
    assert files.EXPANSION in finding.remedy
    monkeypatch.setenv(files.EXPANSION, str(1 << 30))
    assert finding_of(bomb).found == "an empty file"


def test_the_limit_of_expansion_is_a_number(tmp_path, monkeypatch):
    monkeypatch.setenv(files.EXPANSION, "4GiB")
    with pytest.raises(InputError, match="a number of bytes"):
        read(written(tmp_path, gzip.compress(b"{}")))


def test_members_that_stand_twice_are_findings(tmp_path):
    text = native.to_json(full_problem())
    double = text.replace(b'"name": "load"', b'"name": "load", "name": "load"', 1)
    assert double != text
    finding = finding_of(written(tmp_path, double))
    assert (finding.where, finding.found) == ("member 'name'", "it stands there twice")


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400"])
def test_numbers_that_are_none_are_named(tmp_path, number):
    text, size = native.to_json(full_problem()), b'"memory_bytes": '
    assert size + b"1000" in text
    strange = text.replace(size + b"1000", size + number.encode(), 1)
    finding = finding_of(written(tmp_path, strange))
    assert number in finding.found
