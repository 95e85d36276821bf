"""What the product promises, on a cluster of containers with host names, users and HDFS of their own."""

from __future__ import annotations

import json
import re

import pytest

from tests.docker.compose import GPUS, SERVERS, Compose, Json

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]
SCENARIO = "/var/lib/ygs/scenario.toml"
VANISHED = '[[events]]\nat_s = 0\nwhat = "vanish"\ngpu = 1\n'
RELAX_AFTER_S = 10  # docker/service.toml


def share(cluster: Compose, path: str) -> Json:
    """Return what a virtual cluster has of the GPUs."""
    found = next(one for one in cluster.ygs("vcs")["virtual_clusters"] if one["path"] == path)
    return dict(found["shares"][0])


def ours(cluster: Compose, container: str) -> list[str]:
    """Return what lies in a container under the product's name."""
    names = "-iname '*ygs*' -o -iname '*yarn_gpu*' -o -iname '*yarn-gpu*'"
    find = f"find / -xdev -not -path '/proc/*' \\( {names} \\) 2>/dev/null; grep -l ygs /etc/hadoop/conf/*; true"
    return cluster.inside(container, "sh", "-c", find).split()


def test_a_client_with_stock_hadoop_and_none_of_our_files_is_served(cluster: Compose) -> None:
    assert cluster.inside("client", "id", "-un") == "submitter\n"
    assert ours(cluster, "client") == []
    assert "/etc/hadoop/conf/yarn-site.xml" in ours(cluster, "resourcemanager"), "they would be found"
    printed = cluster.command("submit", wait_s=300)
    lines = re.findall(r"^rank (\d) of 2 on (gpu-\w\d) has (GPU-[\w-]+),(GPU-[\w-]+)$", printed, re.MULTILINE)
    assert sorted(rank for rank, *_ in lines) == ["0", "1"], printed
    assert len({host for _, host, *_ in lines}) == 1, "four GPUs are those of one server"
    assert len({uuid for _, _, *uuids in lines for uuid in uuids}) == GPUS, "nobody shares a card"


def test_nobody_is_root(cluster: Compose) -> None:
    names = ("namenode", "datanode", "resourcemanager", "service", "prometheus", *SERVERS)
    assert {name: cluster.inside(name, "id", "-un").strip() for name in names} == dict.fromkeys(names, "hadoop")


def test_each_container_says_that_it_is_healthy(cluster: Compose) -> None:
    names = ("namenode", "datanode", "resourcemanager", "service", "prometheus", *SERVERS)
    say = "{{.State.Health.Status}}"
    look = lambda: {name: cluster.engine("inspect", "-f", say, cluster.container(name)).strip() for name in names}  # noqa: E731 - used once
    cluster.until(look, dict.fromkeys(names, "healthy").__eq__, "each is healthy")


def test_a_gang_gets_all_or_nothing(cluster: Compose) -> None:
    first = cluster.hold("2x4", "research")
    cluster.await_gpus(first, 8)
    second = cluster.hold("2x4", "default")
    cluster.until(lambda: cluster.waiting(second), lambda code: code == "vc_quota", "the second, which borrows, waits")
    assert cluster.hosts(second) == [], "not the four that are free"
    cluster.end(first)
    cluster.await_gpus(second, 8)


def test_what_can_never_run_is_refused_with_the_reason(cluster: Compose) -> None:
    refused = cluster.hold("4x4", "default")
    ended = cluster.until(lambda: cluster.job(refused), lambda job: job["state"] == "ended", "it is refused")
    assert ended["diagnostics"] == "asks 16 GPUs at once, all servers together have 12"


def test_a_queue_borrows_up_to_its_maximum(cluster: Compose) -> None:
    within = cluster.hold("2x4", "production")
    cluster.await_gpus(within, 8)
    assert {key: share(cluster, "root.production")[key] for key in ("quota_gpus", "maximum_gpus", "borrowed_gpus")} == {
        "quota_gpus": 4,
        "maximum_gpus": 8,
        "borrowed_gpus": 8,
    }
    beyond = cluster.hold("1x4", "production")
    cluster.until(lambda: cluster.waiting(beyond), lambda code: code == "vc_maximum", "its maximum forbids it")
    assert sum(gpu["job_id"] is None for s in cluster.servers().values() for gpu in s["gpus"]) == GPUS, "four are free"
    cluster.end(within)
    cluster.await_gpus(beyond, 4)


def test_locality_is_given_up_level_by_level(cluster: Compose) -> None:
    cluster.drain("gpu-a1", "gpu-b1")
    small = cluster.hold("1x2", "default")
    cluster.await_gpus(small, 2)
    assert set(cluster.hosts(small)) == {"gpu-a2"}
    cluster.undrain()
    large = cluster.hold("2x4", "research")
    cluster.until(lambda: cluster.waiting(large), lambda code: code == "fragmented", "it waits for one rack")
    cluster.await_gpus(large, 8)
    assert set(cluster.hosts(large)) == {"gpu-a1", "gpu-b1"}
    job = cluster.job(large)
    assert job["level"] == 2, "anywhere"
    assert job["delays"]["fragmentation_s"] >= 2 * RELAX_AFTER_S, "two levels were tried before"


def test_borrowed_gangs_make_room_for_who_is_within_its_quota(cluster: Compose) -> None:
    borrower = cluster.hold("3x4", "default")
    cluster.await_gpus(borrower, 12)
    assert share(cluster, "root.default")["borrowed_gpus"] == 12
    owner = cluster.hold("1x4", "production")
    cluster.until(lambda: cluster.waiting(owner), bool, "it waits")
    cluster.await_gpus(owner, 4)
    victim = cluster.job(borrower)
    assert (victim["preempted_times"], victim["used"]["gpus"]) == (1, 0), "the gang went as a whole"


def health(cluster: Compose, host: str) -> list[str]:
    """Return the health of each GPU of a server."""
    servers = cluster.ygs("top")["servers"]
    return [gpu["health"] for server in servers if server["host"] == host for gpu in server["gpus"]]


def test_a_lost_card_is_given_to_nobody_until_it_is_back(cluster: Compose) -> None:
    cluster.drain("gpu-a1", "gpu-a2")
    try:
        cluster.inside("gpu-b1", "tee", SCENARIO, given=VANISHED)
        cluster.until(lambda: health(cluster, "gpu-b1"), lambda seen: seen[1:2] == ["quarantined"], "it is taken out")
        job = cluster.hold("1x4", "research")
        cluster.until(lambda: cluster.waiting(job), bool, "it waits")
        small = cluster.hold("1x3", "research")
        cluster.await_gpus(small, 3)
        cluster.end(small)
        cluster.await_gpus(small, 0)
        assert cluster.hosts(job) == [], "three are free"
    finally:
        cluster.inside("gpu-b1", "tee", SCENARIO, given="# Nothing happens.\n")
        listed = lambda: cluster.ygs("top")["servers"][2]["gpus"][1]["reading"]  # noqa: E731 - used once
        cluster.until(listed, bool, "the card is listed again")
        cluster.operate("ack", "gpu-b1", "1", "--reason", "it is back")
    cluster.await_gpus(job, 4)
    assert set(cluster.hosts(job)) == {"gpu-b1"}


def test_what_runs_outlives_the_service(cluster: Compose) -> None:
    job = cluster.hold("2x2", "research")
    cluster.await_gpus(job, 4)
    before = cluster.containers(job)
    cluster.kill("service")
    cluster.start("service")
    cluster.await_serving()
    cluster.await_gpus(job, 4)
    assert cluster.containers(job) == before
    later = cluster.hold("2x4", "research")
    cluster.await_gpus(later, 8)


def test_what_runs_outlives_node_monitor_and_node_manager(cluster: Compose) -> None:
    job = cluster.hold("3x4", "default")
    cluster.await_gpus(job, 12)
    before = cluster.containers(job)
    host = cluster.hosts(job)[0]
    cluster.inside(host, "pkill", "-KILL", "-f", "main.. monitor|NodeManager$")
    cluster.await_serving()
    cluster.await_gpus(job, 12)
    assert cluster.containers(job) == before
    cluster.end(job)
    later = cluster.hold("3x4", "default")
    cluster.await_gpus(later, 12)


def test_a_certificate_of_a_server_is_no_operators(cluster: Compose) -> None:
    """The service hears who calls by certificate; a server's monitor may not drain, and that it tried is written down."""
    tls = ("--service", "service:7433", "--tls", "/etc/yarn-gpu-sched/tls")
    drain = "ygs drain gpu-a1 --reason test " + " ".join(tls) + "; echo code=$?"
    assert "code=5" in cluster.inside("gpu-b1", "sh", "-c", drain), "refused by the service"
    audit = cluster.inside("service", "cat", "/var/lib/ygs/service/audit.jsonl").splitlines()
    told = [json.loads(line) for line in audit]
    refused = [line for line in told if line["who"] == "monitor/gpu-b1" and line["outcome"] == "refused"]
    assert {line["rpc"].rpartition("/")[2] for line in refused} == {"Mark"}, audit[-3:]


def test_prometheus_reads_the_service_and_every_monitor(cluster: Compose) -> None:
    page = "http://localhost:9090/api/v1/query?query=sum(up)"
    up = lambda: cluster.inside("prometheus", "curl", "-fsS", page)  # noqa: E731 - used once
    cluster.until(up, lambda text: text.rstrip("}]\n").endswith('"4"'), "four are up")


def test_the_doctor_finds_no_fault(cluster: Compose) -> None:
    where = "--rm http://resourcemanager:8088 --conf /etc/hadoop/conf --certificates /etc/yarn-gpu-sched/tls"
    ask = f"ygs doctor {where} --json; true"
    told = cluster.until(
        lambda: json.loads(cluster.inside("service", "sh", "-c", ask)),
        lambda told: told["faults"] == 0,  # a ResourceManager that has just begun is not active yet
        "the doctor finds no fault",
    )
    assert [one for one in told["checks"] if one["verdict"] == "warning"] == []
    looked = {one["check"] for one in told["checks"] if one["verdict"] == "ok"}
    assert {"rm", "scheduler", "service", "stream", "versions", "racks", "gpus", "monitors"} <= looked
    seen = next(one["findings"] for one in told["checks"] if one["check"] == "certificates")
    assert any("service/service, until" in one["sentence"] for one in seen), seen


def test_what_ran_is_archived_in_hdfs(cluster: Compose) -> None:
    job = cluster.hold("1x2", "research")
    cluster.await_gpus(job, 2)
    cluster.end(job)
    cluster.until(lambda: cluster.job(job)["state"], lambda state: state == "ended", "it has ended")
    cluster.engine("stop", cluster.container("service"))  # which closes the files of the hour
    cluster.start("service")
    cluster.await_serving()
    listed = "hdfs dfs -ls -R /ygs/archive/jobs 2>/dev/null || true"
    look = lambda: cluster.inside("client", "sh", "-c", listed)  # noqa: E731 - used once
    cluster.until(look, lambda text: text.rstrip().endswith(".parquet"), "a file of jobs is there")
