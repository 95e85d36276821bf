"""The command line in a terminal of 80 columns, the product's own service, and a resource manager in memory."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.terminal import Ended, run_in_terminal
from tests.cli.test_listings import FORBIDDEN, HOSTILE
from tests.client.real_service import real_service
from yarn_gpu_sched.client import Client, FakeResourceManager
from yarn_gpu_sched.protocol.v1 import job_pb2

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WAIT_S = 60.0
RUNNING, WAITING, HOSTILE_JOB = (f"application_1764450000000_000{number}" for number in (1, 2, 3))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        real_service(tmp_path_factory.mktemp("service")) as address,
        FakeResourceManager(address) as rm,
        Client(address) as client,
    ):
        rm.wait(lambda: client.cluster().connected, timeout_s=WAIT_S)
        for host in ("gpu-a1", "gpu-a2"):
            rm.add_server(host)
        rm.add_virtual_cluster("root.research", quota_gpus=4)
        submit(rm, RUNNING, "gang:3x2", 3, 2)
        rm.wait(lambda: len(rm.containers(RUNNING)) == 3, timeout_s=WAIT_S)
        submit(rm, WAITING, "gang:2x2", 2, 2)
        rm.submit(HOSTILE_JOB, name=HOSTILE, user=HOSTILE, tags=[HOSTILE], vc="root.research")
        for view in client.watch(HOSTILE_JOB, for_s=WAIT_S):
            if view.state == job_pb2.JOB_STATE_PENDING:
                break
        yield address


def submit(rm: FakeResourceManager, job_id: str, tag: str, count: int, gpus: int) -> None:
    rm.submit(job_id, vc="root.research", tags=[tag], name="résumé 日本")
    rm.ask(job_id, count, gpus=gpus)


def show(address: str, *arguments: str) -> str:
    ended = run_in_terminal(*arguments, "--service", address)
    assert ended.exit_code == 0, ended.shown
    shown = COLOUR.sub("", ended.shown)
    assert FORBIDDEN.findall(shown) == []
    return shown


def read(address: str, *arguments: str) -> Any:  # noqa: ANN401 - whatever the document holds
    return json.loads(show(address, *arguments, "--json"))


@pytest.mark.parametrize(
    "command",
    [("jobs",), ("job", "show", RUNNING), ("job", "show", HOSTILE_JOB), ("servers",), ("vcs",)],
    ids=" ".join,
)
def test_listings_fit_eighty_columns(address: str, command: tuple[str, ...]) -> None:
    assert max(map(cell_len, show(address, *command).splitlines())) <= 80


def test_jobs_are_in_order_with_what_they_hold_and_want(address: str) -> None:
    rows = [line.split() for line in show(address, "jobs").splitlines()]
    assert [row[0] for row in rows[1:]] == [RUNNING, WAITING, HOSTILE_JOB]
    assert [row[1:3] for row in rows[1:3]] == [["running", "6"], ["pending", "0+4"]]
    assert [job["name"] for job in read(address, "jobs")["jobs"]][2] == HOSTILE


def test_why_names_the_numbers(address: str) -> None:
    sentence = show(address, "why", WAITING).strip()
    assert sentence.startswith(f"{WAITING} waits: ")
    for number in ("4 GPUs", "2 GPUs", "1 server"):
        assert number in sentence
    assert read(address, "why", WAITING)["waiting"]["code"] == "vc_quota"
    assert "waits for nothing" in show(address, "why", RUNNING)


def test_job_show_and_servers_agree_on_every_gpu(address: str) -> None:
    containers = read(address, "job", "show", RUNNING)["containers"]
    by_job = {(c["server_id"], index) for c in containers for index in c["gpu_indices"]}
    by_server = {
        (server["server_id"], gpu["index"])
        for server in read(address, "servers")["servers"]
        for gpu in server["gpus"]
        if gpu["job_id"] == RUNNING
    }
    assert by_job == by_server
    assert len(by_job) == 6


def test_vcs_show_quota_and_use(address: str) -> None:
    use = next(vc for vc in read(address, "vcs")["virtual_clusters"] if vc["path"] == "root.research")
    assert (use["quota_gpus"], use["used"]["gpus"], use["jobs_running"]) == (4, 6, 1)


def test_what_is_not_there_has_its_exit_code(address: str) -> None:
    ended: Ended = run_in_terminal("job", "show", "nobody", "--service", address)
    assert ended.exit_code == 3
    assert "nobody" in ended.shown


def test_a_service_that_is_gone_has_its_exit_code(tmp_path: Path) -> None:
    with real_service(tmp_path) as gone:
        assert run_in_terminal("jobs", "--service", gone).shown == "no jobs\n"
    ended = run_in_terminal("jobs", "--service", gone)
    assert ended.exit_code == 4
    assert f"no service answers at {gone}" in ended.shown


def test_why_goes_on_to_what_would_change_it_and_when(address: str) -> None:
    document = read(address, "why", WAITING)
    outlook = document["outlook"]
    assert outlook["job_ids"] == [RUNNING]
    assert any(f"the end of {RUNNING}, which holds 6 GPUs" in change for change in outlook["changes"])
    assert outlook["when"].startswith("unknown: the job that must end does not say how long it runs")
    shown = show(address, "why", WAITING)
    assert "what would change it:" in shown
    assert "when: unknown" in shown
    assert max(map(cell_len, shown.splitlines())) <= 80


def test_vcs_show_what_is_borrowed(address: str) -> None:
    (research,) = [one for one in read(address, "vcs")["virtual_clusters"] if one["path"] == "root.research"]
    (share,) = research["shares"]
    assert (share["quota_gpus"], share["used_gpus"], share["borrowed_gpus"]) == (4, 6, 6)


def test_delays_show_who_waits_now(address: str) -> None:
    rows = {row["size"]: row for row in read(address, "delays")["rows"] if row["virtual_cluster"] == "root.research"}
    assert rows["2-4"]["waiting"] == 1
    assert "root.research" in show(address, "delays")
    assert read(address, "delays", "--vc", "root.other")["rows"] == []
