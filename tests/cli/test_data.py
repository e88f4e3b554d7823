"""Downloads of public files, from a server on loopback: good, wrong, missing, cut off."""

from __future__ import annotations

import builtins
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from milp_plan.cli import data
from milp_plan.cli.main import main
from milp_plan.core import InputError
from milp_plan.io import public_data
from milp_plan.io.public_data import SETS, PublicFile, PublicSet, download
from tests.support.public import PUBLIC

pooch = pytest.importorskip("pooch", reason="downloads: pip install 'milp_plan[data]'")

CONTENTS = {
    "one.json": b'{"one": 1}' * 50_000,
    "deep/two.json": b'{"two": 2}',
    "three.json": b"3",
}


class Server(ThreadingHTTPServer):
    """Serves ``contents`` by path; ``cut`` paths end before they are complete."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = {f"/base/upstream/{name}": text for name, text in CONTENTS.items()}
        self.cut: set[str] = set()
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/base"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        text = self.server.contents.get(self.path)
        if text is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text[: len(text) // 2] if self.path in self.server.cut else text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("MILP_PLAN_BENCHMARKS", raising=False)
    files = tuple(
        PublicFile(name, hashlib.sha256(text).hexdigest(), len(text), f"upstream/{name}")
        for name, text in CONTENTS.items()
    )
    tiny = PublicSet("iopddl", "three files", "none", "nowhere", "http://127.0.0.1:9")
    tiny.__dict__["files"] = files
    monkeypatch.setitem(public_data.SETS, "iopddl", tiny)
    found = Server()
    thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["data", *map(str, words)])


def get(server: Server, folder: Path, *words: str) -> Result:
    return run("get", "iopddl", "--folder", folder, "--address", server.address, *words)


def there(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, whatever it is called."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_files_arrive_once_and_the_variable_is_reported(server: Server, tmp_path: Path) -> None:
    first = get(server, tmp_path)
    assert first.exit_code == 0, first.output
    assert there(tmp_path / "iopddl") == CONTENTS
    assert "3 files" in first.output
    assert f"export MILP_PLAN_BENCHMARKS={tmp_path}" in first.stdout
    assert "downloading deep/two.json" in first.stderr
    again = get(server, tmp_path, "--json")
    assert json.loads(again.stdout)["downloaded"] == []
    assert len(server.asked) == 3


def test_the_variable_names_the_folder_and_patterns_the_files(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILP_PLAN_BENCHMARKS", str(tmp_path))
    words = ("get", "iopddl", "--address", server.address, "--only", "t*.json")
    reported = run(*words, "--json")
    assert json.loads(reported.stdout)["downloaded"] == ["three.json"]
    assert set(there(tmp_path)) == {"iopddl/three.json"}
    assert "export" not in run(*words).stdout
    wrong = run(*words, "--only", "four*")
    assert wrong.exit_code == 3
    assert "found 'four*', expected a pattern for files of 'iopddl'" in wrong.stderr


def test_without_a_folder_they_go_to_the_cache(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / name)
    assert run("get", "iopddl", "--address", server.address).exit_code == 0
    assert there(tmp_path / "milp-plan" / "iopddl") == CONTENTS


def test_other_contents_are_refused_and_the_rest_arrives(server: Server, tmp_path: Path) -> None:
    server.contents["/base/upstream/one.json"] = b'{"one": 2}' * 50_000
    result = get(server, tmp_path)
    assert result.exit_code == 3
    assert "upstream/one.json: found other contents, expected 500,000 bytes with SHA-256 " in (
        result.stderr
    )
    assert set(there(tmp_path / "iopddl")) == {"deep/two.json", "three.json"}


def test_a_missing_file_is_named(server: Server, tmp_path: Path) -> None:
    del server.contents["/base/upstream/deep/two.json"]
    result = get(server, tmp_path)
    assert result.exit_code == 3
    assert f"{server.address}/upstream/deep/two.json: found HTTP status 404" in result.stderr
    assert set(there(tmp_path / "iopddl")) == {"one.json", "three.json"}


def test_a_connection_that_breaks_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    server.cut.add("/base/upstream/one.json")
    result = get(server, tmp_path)
    assert result.exit_code == 3
    assert "upstream/one.json: found " in result.stderr
    assert set(there(tmp_path / "iopddl")) == {"deep/two.json", "three.json"}
    server.cut.clear()
    assert get(server, tmp_path).exit_code == 0
    assert there(tmp_path / "iopddl") == CONTENTS


def test_ctrl_c_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    wanted = SETS["iopddl"]

    class Interrupted(pooch.HTTPDownloader):
        def __call__(self, url: str, output: str, manager: object) -> None:
            super().__call__(url, output, manager)
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooch, "HTTPDownloader", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            download(wanted, tmp_path, wanted.files, address=server.address)
        assert get(server, tmp_path).exit_code == 130
    assert there(tmp_path) == {}


def test_a_file_that_has_changed_is_replaced(server: Server, tmp_path: Path) -> None:
    assert get(server, tmp_path).exit_code == 0
    (tmp_path / "iopddl" / "one.json").write_bytes(b"changed")
    assert "1 new, 2 there already" in get(server, tmp_path).stdout
    (tmp_path / "iopddl" / "one.json").write_bytes(b"changed")
    server.contents.clear()
    assert get(server, tmp_path).exit_code == 3
    assert (tmp_path / "iopddl" / "one.json").read_bytes() == b"changed", "nothing better came"


def test_nobody_answers(server: Server, tmp_path: Path) -> None:
    server.server_close()
    with pytest.raises(InputError, match=r"found no complete answer \(ConnectionError\)"):
        download(SETS["iopddl"], tmp_path, SETS["iopddl"].files[:1], address=server.address)


def test_without_pooch_it_says_what_to_install(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def lacking(name: str, *rest: object) -> object:
        if name == "pooch":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lacking)
    result = get(server, tmp_path)
    assert result.exit_code == 6
    assert "pip install 'milp_plan[data]'" in result.stderr


def test_lists_are_complete_and_pinned() -> None:
    reported = json.loads(run("list", "--json").stdout)
    assert list(reported) == list(SETS) == list(data.NAMES)
    for entry in reported.values():
        commit = entry["address"].rsplit("/", 1)[1]
        assert len(commit) == 40
        assert entry["address"].startswith("https://raw.githubusercontent.com/")
        names = [file["name"] for file in entry["files"]]
        assert len(set(names)) == len(names) > 7
        assert any("LICENSE" in name for name in names)
        for file in entry["files"]:
            assert len(bytes.fromhex(file["sha256"])) == 32
            assert file["size_bytes"] > 0
            assert file["source"].endswith(file["name"])
    shown = run("list").stdout
    assert "asplos-2025-iopddl-G.json.gz" in shown
    assert "latency-inputs/LayerGraphs/bert24_inference.json" in shown


def test_lists_are_what_the_folder_holds() -> None:
    """Where the public files are there, their contents are the pinned ones."""
    pinned = {PUBLIC / name / file.name: file for name in SETS for file in SETS[name].files}
    there = [path for path in pinned if path.is_file()]
    if not there:
        pytest.skip(
            "public files are not shipped: milp-plan data get, then set MILP_PLAN_BENCHMARKS"
        )
    for path in there:
        text = path.read_bytes()
        assert len(text) == pinned[path].size_bytes, path
        assert hashlib.sha256(text).hexdigest() == pinned[path].sha256, path
