"""The NodeManager's REST, as Hadoop 3.4 and 3.5 write it, from a real HTTP server that may misbehave."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from yarn_gpu_sched.monitor.node_manager import Device, NodeDevices, NodeManagerSilent, parse, read_node_manager

FIRST = "container_e01_1700000000000_0001_01_000002"
SECOND = "container_1700000000000_0002_01_000003"


def device(index: int, minor: int, container_id: str | None = None) -> dict[str, object]:
    return {"index": index, "minorNumber": minor} | ({"containerId": container_id} if container_id else {})


TOTAL = [device(1, 0), device(2, 1), device(3, 2)]
# As the classes of 3.4.2 and 3.5.0 write themselves; 3.5.0 leaves out what has a getter and no setter.
HADOOP_3_4 = {
    "gpuDeviceInformation": {"driverVersion": "550.1", "gpus": []},
    "totalGpuDevices": TOTAL,
    "assignedGpuDevices": [device(1, 0, FIRST), device(3, 2, SECOND), device(2, 1, FIRST)],
}
HADOOP_3_5 = {
    "nmGpuResourceInfo": {
        "resourceValue": 0,
        "totalGpuDevices": [{}, {}, {}],
        "assignedGpuDevices": [{"containerId": FIRST}, {"containerId": SECOND}, {"containerId": FIRST}],
    }
}


def read(answer: object) -> NodeDevices | None:
    return parse(json.dumps(answer).encode())


def test_devices_of_hadoop_3_4_are_read() -> None:
    assert read(HADOOP_3_4) == NodeDevices(
        total=(Device(1, 0), Device(2, 1), Device(3, 2)),
        assigned={FIRST: (Device(1, 0), Device(2, 1)), SECOND: (Device(3, 2),)},
    )


def test_devices_of_hadoop_3_5_are_counted_and_none_is_guessed() -> None:
    found = read(HADOOP_3_5)
    assert found == NodeDevices(total=(Device(),) * 3, assigned={FIRST: (Device(),) * 2, SECOND: (Device(),)})
    assert found is not None
    assert found.slots([(0, 0, 0), (1, 1, 1), (2, 2, 2)]) is None


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"resourceValue": 0},
        {"totalGpuDevices": [], "assignedGpuDevices": []},
        {"nmGpuResourceInfo": {"resourceValue": 0, "totalGpuDevices": [], "assignedGpuDevices": []}},
        {"gpuDeviceInformation": {"driverVersion": "550.1"}, "totalGpuDevices": None},
    ],
)
def test_nodemanager_that_assigns_nothing_itself_is_told_as_such(answer: object) -> None:
    assert read(answer) is None


def test_nothing_assigned_yet_is_not_the_same_as_assigning_nothing() -> None:
    assert read({"totalGpuDevices": TOTAL}) == NodeDevices((Device(1, 0), Device(2, 1), Device(3, 2)), {})


def test_one_device_alone_may_come_without_a_list_and_numbers_as_text() -> None:
    alone = {"index": "1", "minorNumber": "0"}
    assert read({"totalGpuDevices": alone, "assignedGpuDevices": alone | {"containerId": FIRST}}) == NodeDevices(
        (Device(1, 0),), {FIRST: (Device(1, 0),)}
    )


def test_total_that_differs_from_the_monitors_is_told() -> None:
    found = read(HADOOP_3_4)
    assert found is not None
    assert found.differs(3) == ""
    assert found.differs(4) == "the NodeManager gives out 3 GPUs, this server has 4"


def test_c21_devices_are_found_by_their_minor_number_though_indices_have_moved() -> None:
    found = read(HADOOP_3_4)
    assert found is not None
    assert found.slots([(0, 0, 3), (1, 1, 0), (2, 2, 1), (3, 3, 2)]) == {FIRST: [1, 2], SECOND: [3]}
    moved = [(0, 0, 3), (1, None, None), (2, 1, 1), (3, 2, 2), (4, 3, 4)]  # the card with minor 0 has vanished
    assert found.slots(moved) is None
    by_index = [(0, 0, None), (1, 1, None), (2, 2, None), (3, 3, None)]
    assert found.slots(by_index) == {FIRST: [1, 2], SECOND: [3]}
    assert found.slots([]) is None
    assert NodeDevices((Device(0, 0),), {}).slots([]) == {}


def test_one_card_for_two_devices_is_believed_of_neither() -> None:
    twice = NodeDevices((Device(0, 0), Device(0, 0)), {FIRST: (Device(0, 0), Device(0, 0))})
    assert twice.slots([(0, 0, 0)]) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "the answer is list, should be an object"),
        ("x", "the answer is str"),
        ({"nmGpuResourceInfo": [1]}, "the answer is list"),
        ({"totalGpuDevices": 3}, "totalGpuDevices should be a list"),
        ({"totalGpuDevices": ""}, "totalGpuDevices should be a list"),
        ({"totalGpuDevices": [1]}, "totalGpuDevices should be a list"),
        ({"totalGpuDevices": [{}] * 65}, "at most 64 devices"),
        ({"totalGpuDevices": TOTAL, "assignedGpuDevices": [{"index": 1}]}, "containerId is None"),
        ({"totalGpuDevices": TOTAL, "assignedGpuDevices": [device(1, 0, "../x")]}, "containerId is '../x'"),
        ({"totalGpuDevices": TOTAL, "assignedGpuDevices": {"containerId": 7}}, "containerId is 7"),
    ],
)
def test_answer_of_another_shape_is_no_answer(answer: object, words: str) -> None:
    with pytest.raises(NodeManagerSilent, match=words):
        read(answer)


@pytest.mark.parametrize("body", [b"", b"{", b"<html/>", b"\xff", b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"])
def test_answer_that_is_no_json_is_no_answer(body: bytes) -> None:
    with pytest.raises(NodeManagerSilent, match="the answer is no JSON"):
        parse(body)


@pytest.mark.parametrize("number", [-1, 1024, 1.5, True, None, "x", "-1", "٣", 10**30, [], {}])
def test_number_that_is_none_is_not_told(number: object) -> None:
    assert read({"totalGpuDevices": [{"index": number, "minorNumber": 1}]}) == NodeDevices((Device(None, 1),), {})


class Answers(ThreadingHTTPServer):
    """Says to every question what the test wants it to say."""

    daemon_threads = True
    status = 200
    body = b"{}"
    headers: tuple[tuple[str, str], ...] = ()
    drip = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_arguments: object) -> None:
        """Who hangs up before the end is meant to."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = cast("Answers", self.server)
        server.asked.append(self.path)
        self.send_response(server.status)
        for name, value in server.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(server.body)
        while server.drip:
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.02)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Answers]:
    with Answers() as answers:
        thread = threading.Thread(target=answers.serve_forever, args=(0.01,))
        thread.start()
        yield answers
        answers.drip = False
        answers.shutdown()
        thread.join()


def test_nodemanager_is_asked_for_the_gpu_plugin(server: Answers) -> None:
    server.body = json.dumps(HADOOP_3_4).encode()
    found = read_node_manager(server.url + "/")
    assert found is not None
    assert set(found.assigned) == {FIRST, SECOND}
    assert server.asked == ["/ws/v1/node/resources/yarn.io%2Fgpu"]


def test_other_executor_and_no_such_page_mean_that_it_assigns_nothing(server: Answers) -> None:
    server.status = 404
    assert read_node_manager(server.url) is None
    server.status = 500
    server.body = b'{"RemoteException":{"message":"Linux Container Executor is not configured for the NodeManager."}}'
    assert read_node_manager(server.url) is None


@pytest.mark.parametrize("status", [302, 401, 403, 500, 503])
def test_refusal_says_nothing_about_devices(server: Answers, status: int) -> None:
    server.status = status
    server.headers = (("Location", f"{server.url}/other"), ("WWW-Authenticate", "Negotiate"))
    with pytest.raises(NodeManagerSilent, match=f"status {status}"):
        read_node_manager(server.url)
    assert len(server.asked) == 1


def test_silent_nodemanager_is_not_one_that_assigns_nothing() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(NodeManagerSilent, match="no answer"):
            read_node_manager(address)
        unused.listen()
        with pytest.raises(NodeManagerSilent, match="no answer"):
            read_node_manager(address, timeout_s=0.2)


def test_answer_that_never_ends_is_given_up(server: Answers) -> None:
    server.drip = True
    with pytest.raises(NodeManagerSilent, match="did not end in time"):
        read_node_manager(server.url, timeout_s=0.3)
    server.drip = False
    server.body = b" " * 2_000_000
    with pytest.raises(NodeManagerSilent, match="more than 1048576 bytes"):
        read_node_manager(server.url)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1", "", "http://127.0.0.1:99999", "http://["])
def test_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(NodeManagerSilent):
        read_node_manager(address)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from([FIRST, "1", 1, 2]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["totalGpuDevices", "assignedGpuDevices", "nmGpuResourceInfo", "containerId", "index", "minorNumber"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def _refused_or_sound(body: bytes) -> None:
    words = ""
    try:
        found = parse(body)
    except NodeManagerSilent as error:
        words, found = str(error), None
    assert words.isprintable()
    if found is not None:
        told = [each for devices in found.assigned.values() for each in devices]
        assert found.total
        assert all(container_id.encode() in body for container_id in found.assigned)
        assert all(
            number is None or str(number).encode() in body for each in told for number in (each.index, each.minor)
        )


@fuzzed(200, 3_000)
@given(answer=JSON)
def test_whatever_is_answered_nothing_is_raised_but_that_it_is_none(answer: object) -> None:
    _refused_or_sound(json.dumps(answer).encode())


@fuzzed(200, 3_000)
@given(start=st.integers(0, 400), skip=st.integers(0, 5), more=st.binary(max_size=4), cut=st.integers(0, 600))
def test_answer_that_is_cut_or_mutated_is_refused_or_sound(start: int, skip: int, more: bytes, cut: int) -> None:
    body = json.dumps(HADOOP_3_4).encode()
    _refused_or_sound((body[:start] + more + body[start + skip :])[:cut])
