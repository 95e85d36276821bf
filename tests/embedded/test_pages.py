"""What is read from the daemons' pages: of a server that answers well, badly, with an error or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from yarn_gpu_sched.embedded import ClusterError, ClusterSpec, free_port, readiness
from yarn_gpu_sched.embedded.control import SupervisorId
from yarn_gpu_sched.embedded.record import Record
from yarn_gpu_sched.embedded.status import DaemonStatus, server_statuses

NODES = "/ws/v1/cluster/nodes"
HDFS = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"


class Pages:
    """A daemon's web server; `pages` is what it answers, by path."""

    def __init__(self) -> None:
        pages: dict[str, tuple[int, bytes]] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, content = pages.get(self.path, (404, b"no such page"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self.pages = pages
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, path: str, content: object, status: int = 200) -> None:
        self.pages[path] = (status, content if isinstance(content, bytes) else json.dumps(content).encode())

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def daemon() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.close()


def node(name: str, state: str = "RUNNING", gpus: int | None = None) -> dict[str, Any]:
    kinds = [{"name": "memory-mb", "value": 512}, {"name": "yarn.io/gpu", "value": gpus}]
    used = {"resourceInformations": {"resourceInformation": kinds}} if gpus is not None else {}
    return {"nodeHostName": name, "state": state, "usedResource": used}


def test_a_page_is_its_json(daemon: Pages) -> None:
    daemon.answer("/x?y=z", {"a": [1]})
    assert readiness.page(daemon.port, "/x?y=z") == {"a": [1]}


@pytest.mark.parametrize(
    ("status", "content", "says"),
    [
        (500, b"out of memory", "HTTP 500: out of memory"),
        (404, b"\xff", "HTTP 404: \ufffd"),
        (200, b"<html>", "Expecting value"),
        (200, b"[1]", "not a JSON object"),
        (200, b"null", "not a JSON object"),
    ],
)
def test_a_page_that_is_none_is_an_error_with_its_address(
    daemon: Pages, status: int, content: bytes, says: str
) -> None:
    daemon.answer("/x", content, status)
    with pytest.raises(ClusterError) as problem:
        readiness.page(daemon.port, "/x")
    assert str(problem.value).startswith(f"http://127.0.0.1:{daemon.port}/x: {says}")


def test_nobody_who_answers_is_an_error_too() -> None:
    port = free_port()
    with pytest.raises(ClusterError, match=rf"http://127\.0\.0\.1:{port}/x: .*refused"):
        readiness.page(port, "/x")
    assert readiness.running_servers(port) is None
    assert readiness.hdfs_writable(port) is False


@pytest.mark.parametrize("content", [{"nodes": None}, {"nodes": {}}, {}, {"nodes": {"node": []}}])
def test_a_resource_manager_without_servers_has_none(daemon: Pages, content: object) -> None:
    daemon.answer(NODES, content)
    assert readiness.nodes(daemon.port) == []
    assert readiness.running_servers(daemon.port) == 0


def test_servers_that_run_are_counted(daemon: Pages) -> None:
    known = [node("a"), node("b", "LOST"), node("c"), node("d", "UNHEALTHY")]
    daemon.answer(NODES, {"nodes": {"node": known}})
    assert readiness.nodes(daemon.port) == known
    assert readiness.running_servers(daemon.port) == 2


@pytest.mark.parametrize(
    ("beans", "writable"),
    [
        ([], False),
        ([{"FSState": "Operational", "NumLiveDataNodes": 1}], True),
        ([{"FSState": "safeMode", "NumLiveDataNodes": 1}], False),
        ([{"FSState": "Operational", "NumLiveDataNodes": 0}], False),
        ([{"FSState": "Operational"}], False),
        ([{}, {"FSState": "Operational", "NumLiveDataNodes": 2}], True),
    ],
)
def test_hdfs_is_writable_out_of_safe_mode_with_a_datanode(daemon: Pages, beans: object, writable: bool) -> None:  # noqa: FBT001 # a column of the table
    daemon.answer(HDFS, {"beans": beans})
    assert readiness.hdfs_writable(daemon.port) is writable


def record(port: int) -> Record:
    spec = ClusterSpec(servers=((2, 4),), racks=2, cpu_servers=1)
    return Record(spec, {"rm_web": port}, SupervisorId(1, 2, "boot", "mark"))


def test_servers_are_told_as_the_resource_manager_sees_them(daemon: Pages) -> None:
    first, second, cpu = (one.name for one in record(daemon.port).spec.server_list())
    strangers = [node("elsewhere", gpus=9), node(first, gpus=3), node(cpu, "LOST")]
    daemon.answer(NODES, {"nodes": {"node": strangers}})
    told = {one.name: (one.state, one.gpus, one.gpus_used) for one in server_statuses(record(daemon.port))}
    assert told == {first: ("RUNNING", 4, 3), second: ("UNKNOWN", 4, 0), cpu: ("LOST", 0, 0)}


def test_servers_of_a_resource_manager_that_is_silent_are_unknown() -> None:
    told = server_statuses(record(free_port()))
    assert [(one.state, one.gpus_used) for one in told] == [("UNKNOWN", 0)] * 3
    assert [one.rack for one in told] == [one.rack for one in record(1).spec.server_list()]


@pytest.mark.parametrize(("exit_code", "running"), [(None, True), (0, False), (-9, False)])
def test_a_daemon_runs_until_it_has_an_exit_code(exit_code: int | None, running: bool) -> None:  # noqa: FBT001 # a column of the table
    assert DaemonStatus("rm", 1, 0.0, exit_code).running is running
