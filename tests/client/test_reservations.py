"""Reservations as operators and jobs see them: the product's own service as a process, and a resource manager in memory."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.client.real_service import killed_service, real_service
from tests.client.scripted import await_condition
from tests.client.test_preemption import WAIT_S, await_view, lines, metric
from yarn_gpu_sched.client import Client, FakeResourceManager
from yarn_gpu_sched.protocol.v1 import cluster_pb2, job_pb2, reason_pb2

RESERVED = reason_pb2.WAITING_REASON_CODE_RESERVED
OPTIONS = ("--metrics-listen", "127.0.0.1:0", "--preemption", "off")
RUNS_S = 600
AGAIN_S = 3


@contextmanager
def cluster(folder: Path, *options: str) -> Iterator[tuple[FakeResourceManager, Client]]:
    """Run a service for two servers of 4 GPUs, on which jobs hold 2 and 3; a gang waits for all 4 of one."""
    with (
        real_service(folder, *OPTIONS, *options) as address,
        FakeResourceManager(address) as rm,
        Client(address, timeout_s=WAIT_S) as client,
    ):
        crowd(rm)
        yield rm, client


def crowd(rm: FakeResourceManager) -> None:
    rm.add_virtual_cluster("root.a", quota_gpus=16)
    for host, gpus in (("gpu-a1", 2), ("gpu-a2", 3)):
        rm.add_server(host)
        job_id = f"runner-{host}"
        submit(rm, job_id, gpus, f"runtime:{RUNS_S}")
        rm.wait(lambda job_id=job_id: len(rm.containers(job_id)) == 1, timeout_s=WAIT_S)  # type: ignore[misc] # mypy infers no default
    submit(rm, "large", 4)


def submit(rm: FakeResourceManager, job_id: str, gpus: int, *tags: str) -> None:
    rm.submit(job_id, vc="root.a", tags=["gang:1", *tags])
    rm.ask(job_id, 1, gpus=gpus)


def reservations(client: Client) -> list[cluster_pb2.Reservation]:
    return list(client.cluster().reservations)


def await_reservation(client: Client) -> cluster_pb2.Reservation:
    await_condition(lambda: reservations(client) != [])
    (one,) = reservations(client)
    return one


def moment(line: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(line["timestamp"])


def test_a_gang_that_waited_too_long_has_places_kept_until_it_starts(tmp_path: Path) -> None:
    with cluster(tmp_path, "--reserve-after-s", "1") as (rm, client):
        one = await_reservation(client)
        (where,) = one.servers
        assert (one.job_id, one.virtual_cluster, one.gpus, one.kept_gpus) == ("large", "root.a", 4, 2)
        assert (where.server_id.partition(":")[0], where.gpus, where.kept_gpus) == ("gpu-a1", 4, 2)
        assert (list(one.awaited_job_ids), RUNS_S - 2 * WAIT_S < one.ready_in_s < RUNS_S) == (["runner-gpu-a1"], True)
        answer = client.why("large")
        assert (answer.waiting.code, list(answer.outlook.job_ids)) == (RESERVED, ["runner-gpu-a1"])
        submit(rm, "elsewhere", 1)
        rm.wait(lambda: len(rm.containers("elsewhere")) == 1, timeout_s=WAIT_S)
        submit(rm, "later", 1)
        await_view(client, "later", lambda view: view.waiting.code == RESERVED)
        assert "2 are reserved for large, which waited too long" in client.why("later").waiting.sentence
        await_condition(lambda: metric(tmp_path, "ygs_reserved_gpus") == 2)
        assert [metric(tmp_path, f"ygs_reservations{of}") for of in ("", "_made_total", "_passed_total")] == [1, 1, 0]
        submit(rm, "short", 1, "runtime:60")
        rm.wait(lambda: len(rm.containers("short")) == 1, timeout_s=WAIT_S)
        assert rm.containers("short")[0].server_id == where.server_id
        await_condition(lambda: metric(tmp_path, "ygs_reservations_passed_total") == 1)
        assert metric(tmp_path, "ygs_reserved_gpus") == 1
        for job_id in ("short", "runner-gpu-a1"):
            assert rm.containers("large") == []
            rm.end(job_id)
        rm.wait(lambda: len(rm.containers("large")) == 1, timeout_s=WAIT_S)
        assert rm.containers("large")[0].server_id == where.server_id
        assert rm.containers("later") == []
        await_condition(lambda: [one.job_id for one in reservations(client)] == ["later"])  # the next one has its turn
        await_condition(lambda: lines(tmp_path, "reservation_ended") != [])
    (made,) = [line for line in lines(tmp_path, "reservation_made") if line["job_id"] == "large"]
    assert (made["servers"], made["kept_gpus"]) == ([where.server_id], 2)
    (ended,) = lines(tmp_path, "reservation_ended")
    assert (ended["job_id"], ended["why"]) == ("large", "started")


def test_a_service_that_was_killed_makes_them_anew_when_the_gang_has_waited_again(tmp_path: Path) -> None:
    """It keeps no state of its own: where it reserved before, and since when, is not known to the next one."""
    with ExitStack() as links:
        with killed_service(tmp_path, *OPTIONS, "--reserve-after-s", "1") as (address, pid):
            client = links.enter_context(Client(address, timeout_s=WAIT_S))
            rm = links.enter_context(FakeResourceManager(address))
            crowd(rm)
            assert await_reservation(client).job_id == "large"
            os.kill(pid, signal.SIGKILL)
        with real_service(tmp_path, *OPTIONS, "--reserve-after-s", str(AGAIN_S), "--listen", address):
            one = await_reservation(client)
            assert (one.job_id, one.kept_gpus) == ("large", 2)
            await_condition(lambda: metric(tmp_path, "ygs_reservations_made_total") == 1)
            (began,), (made,) = (lines(tmp_path, name) for name in ("resource_manager_registered", "reservation_made"))
            assert (moment(made) - moment(began)).total_seconds() >= AGAIN_S
            submit(rm, "later", 2)
            await_view(client, "later", lambda view: view.waiting.code == RESERVED)
            rm.end("runner-gpu-a1")
            rm.wait(lambda: len(rm.containers("large")) == 1, timeout_s=WAIT_S)
            assert rm.containers("later") == []


def test_a_policy_without_quotas_keeps_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path, "--reserve-after-s", "1", "--policy", "fifo") as (rm, client):
        await_view(client, "large", lambda view: view.state == job_pb2.JOB_STATE_PENDING)
        await_condition(lambda: client.job("large").age_s > 2)
        submit(rm, "later", 2)
        rm.wait(lambda: len(rm.containers("later")) == 1, timeout_s=WAIT_S)
        assert reservations(client) == []
        assert rm.containers("large") == []
