"""What is measured on a service of its own: the cluster that it is told of, and that small runs come to their end."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import service_gangs, service_snapshot, snapshot_world, tenant_queues


def test_what_runs_fills_whole_servers_and_no_domain_is_empty() -> None:
    changes = snapshot_world.snapshot()
    servers = {change.server.server_id: change.server for change in changes if change.HasField("server")}
    used = Counter(change.container.server_id for change in changes if change.HasField("container"))
    indices = {(c.container.server_id, *c.container.gpu_indices) for c in changes if c.HasField("container")}
    assert (len(servers), used.total(), len(indices)) == (4_096, 10_000, 10_000)
    assert set(used.values()) == {snapshot_world.SERVER_GPUS}
    full = Counter(servers[server_id].rack for server_id in used)
    assert set(full.values()) == {9, 10}
    assert len(full) == 4_096 // 16


def test_one_queue_is_at_its_maximum() -> None:
    changes = snapshot_world.snapshot()
    queues = {c.virtual_cluster.path: c.virtual_cluster for c in changes if c.HasField("virtual_cluster")}
    jobs = {change.job.job_id: change.job.virtual_cluster for change in changes if change.HasField("job")}
    used = Counter(jobs[change.container.job_id] for change in changes if change.HasField("container"))
    assert used[snapshot_world.FULL] == queues[snapshot_world.FULL].maximum_gpus == 100
    others = [path for path in used if path != snapshot_world.FULL]
    assert len(others) == snapshot_world.VCS
    assert all(used[path] < queues[path].quota_gpus for path in others)
    assert set(jobs.values()) <= queues.keys()


def test_batches_are_cut_to_size() -> None:
    batches = snapshot_world.chunks(snapshot_world.snapshot(), 1_000)
    assert {len(batch) for batch in batches[:-1]} == {1_000}
    assert 0 < len(batches[-1]) <= 1_000


@pytest.mark.slow
def test_gangs_through_grpc_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SERVERS", 64), ("GANGS", 60), ("WAITING", 30), ("STRETCHES", 2)):
        monkeypatch.setattr(service_gangs, name, value)
    measured = service_gangs.measure()
    assert measured.configuration["policy"] == "philly"
    rate = measured.figures[0]
    assert (rate.limit, rate.at_least, rate.value > 0) == (500.0, True, True)


@pytest.mark.slow
def test_streams_after_a_snapshot_come_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WAITING_FOR_MAXIMUM", 20), ("ON_THE_LADDER", 4)):
        monkeypatch.setattr(snapshot_world, name, value)
    monkeypatch.setattr(service_snapshot, "ROUNDS", 1)
    monkeypatch.setattr(service_snapshot, "STREAM_CONTAINERS", 80)
    figures = {figure.name: figure for figure in service_snapshot.measure().figures}
    assert figures["snapshot absorbed, slowest of 1"].limit == 1.0
    for name in service_snapshot.STREAM_GANGS:
        assert figures[f"{name} decided and committed over the bare stream"].value > 0


@pytest.mark.slow
def test_a_stream_whose_gangs_find_no_place_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_snapshot, "vc_name", lambda _number: snapshot_world.FULL)
    monkeypatch.setattr(service_snapshot, "ROUNDS", 1)
    monkeypatch.setattr(service_snapshot, "BOUND_S", 3.0)
    with pytest.raises(TimeoutError, match=r"0 of 500 gangs of 8 were decided in 3.0 s"):
        service_snapshot.measure()


def test_queues_of_a_real_resource_manager_fit_below_each_other() -> None:
    settings = tenant_queues.queues(512, 16)
    prefix = "yarn.scheduler.capacity."

    def gpus(path: str, key: str) -> int | None:
        text = settings.get(f"{prefix}{path}.{key}")
        return None if text is None else int(text.rsplit("=", 1)[1].rstrip("]"))

    children: dict[str, list[str]] = {"root": []}
    for key, value in settings.items():
        if key.endswith(".queues"):
            above = key.removeprefix(prefix).removesuffix(".queues")
            children[above] = [f"{above}.{name}" for name in value.split(",")]
    leaves = {path for below in children.values() for path in below if path not in children}
    assert leaves == {*tenant_queues.LEAF_NAMES, tenant_queues.FULL}
    for above, below in children.items():
        has = 512 * 16 if above == "root" else gpus(above, "capacity")
        assert sum(gpus(path, "capacity") or 0 for path in below) <= (has or 0)
    assert gpus(tenant_queues.FULL, "maximum-capacity") == gpus(tenant_queues.FULL, "capacity") == 8
    assert sum(gpus(path, "maximum-capacity") is None for path in tenant_queues.LEAF_NAMES) == 6
