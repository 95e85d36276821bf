"""The check of HDFS where there is none; with a real one: tests/real/test_doctor.py."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.doctor.site import Site
from yarn_gpu_sched.doctor import Verdict


def test_nobody_named_one(site: Site) -> None:
    found = site.look("hdfs")
    assert found.verdict == Verdict.UNSEEN
    assert "--hdfs http://" in found.findings[0].do


def test_one_that_does_not_answer(site: Site) -> None:
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada"}
    found = site.look("hdfs")
    assert found.verdict == Verdict.FAULT
    assert "refused" in found.findings[0].sentence
    assert "NameNode" in found.findings[0].do


def test_a_dry_run_asks_nobody(site: Site) -> None:
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada", "dry_run": True}
    found = site.look("hdfs")
    assert found.verdict == Verdict.UNSEEN
    assert "ada would write /archive/.ygs-doctor-" in found.findings[0].sentence


@pytest.mark.parametrize("address", ["namenode:9870", "hdfs://namenode/x", "http://", "http:///x"])
def test_what_is_no_address(site: Site, address: str) -> None:
    site.places["hdfs"] = address
    assert "http://namenode:9870/archive" in site.look("hdfs").findings[0].sentence


def test_without_the_extra(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs", None)
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada"}
    assert "yarn-gpu-sched[archive]" in site.look("hdfs").findings[0].do


def test_too_little_time_is_no_fault_of_hdfs(site: Site) -> None:
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada"}
    site.timeout_s = 5.0
    found = site.look("hdfs")
    assert found.verdict == Verdict.UNSEEN
    assert "--timeout" in found.findings[0].do


class _NeverRemoving(BaseHTTPRequestHandler):
    """A NameNode that takes a file, gives it back, and removes none."""

    protocol_version = "HTTP/1.1"
    content = b""

    def do_GET(self) -> None:
        if "op=OPEN" in self.path:
            self._answer(200, type(self).content)
        else:
            self._answer(200, b'{"FileStatus": {"type": "DIRECTORY"}}')

    def do_PUT(self) -> None:
        type(self).content = self.rfile.read(int(self.headers.get("Content-Length", 0))) or self._chunks()
        self._answer(201 if type(self).content else 307, b"")

    def do_DELETE(self) -> None:
        self._answer(403, b'{"RemoteException": {"exception": "AccessControlException", "message": "sticky bit"}}')

    def _chunks(self) -> bytes:
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return body

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", f"http://{self.headers['Host']}{self.path}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_file_that_cannot_be_removed_again_is_said(site: Site) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _NeverRemoving) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        site.places |= {"hdfs": f"http://127.0.0.1:{server.server_port}/archive", "hdfs_user": "ada"}
        found = site.look("hdfs")
        server.shutdown()
        thread.join()
    assert found.verdict == Verdict.FAULT
    assert "stays there: sticky bit" in found.findings[0].sentence
    assert found.findings[0].do.startswith("hdfs dfs -rm /archive/.ygs-doctor-")
