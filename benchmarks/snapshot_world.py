"""The state of a cluster that a resource manager tells of: servers, tenants, what runs, and who waits and why.

What runs fills whole servers, as gangs that were packed do: two fifths of each domain's servers are empty. Queues hang below four
others, with quotas and maxima; in some, users take turns or have a limit. Jobs wait for a queue that is at its maximum, and others,
on the ladder, for a domain that is empty as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    container_pb2,
    job_pb2,
    link_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

SERVERS, SERVER_GPUS, RACK_SERVERS = 4_096, 4, 16
CONTAINERS, JOBS = 10_000, 100
VCS, PARENTS, USERS = 16, 4, 8
WAITING_FOR_MAXIMUM, ON_THE_LADDER = 1_000, 20
FULL = "root.full"
CONTAINER = resource_pb2.Resource(memory_mb=1_024, vcores=1, gpus=1)
_WHOLE_SERVER = resource_pb2.Resource(memory_mb=4_096, vcores=4, gpus=SERVER_GPUS)
KEY = ask_pb2.RequestKey(priority=1)


def vc_name(number: int) -> str:
    """Name a virtual cluster: four of them below each of four queues."""
    return f"root.g{number % PARENTS}.vc{number % VCS:02d}"


def snapshot() -> list[link_pb2.Change]:
    """Make the state to absorb: one GPU a container."""
    changes = [link_pb2.Change(virtual_cluster=each) for each in _queues()]
    changes += [link_pb2.Change(server=_server(number)) for number in range(SERVERS)]
    # The first of them fills the one queue that is at its maximum.
    changes += [job(_job_id(number), vc_name(number) if number else FULL) for number in range(JOBS)]
    packed = sorted(range(SERVERS), key=lambda number: (number % RACK_SERVERS, number))
    for number in range(CONTAINERS):
        place, index = divmod(number, SERVER_GPUS)
        changes.append(link_pb2.Change(container=_container(number, packed[place], index)))
    for number in range(WAITING_FOR_MAXIMUM):
        changes += asking(f"waiting_{number:04}", FULL, 8)
    for number in range(ON_THE_LADDER):
        changes += asking(f"ladder_{number:04}", vc_name(number), RACK_SERVERS, _WHOLE_SERVER)
    return changes


def asking(
    job_id: str, vc: str, containers: int, resource: resource_pb2.Resource = CONTAINER
) -> tuple[link_pb2.Change, link_pb2.Change]:
    """Make a job and the asks of its gang."""
    asks = [ask_pb2.Ask(key=KEY, count=containers, resource=resource)]
    told = ask_pb2.JobAsks(job_id=job_id, attempt=1, asks=asks)
    return job(job_id, vc, [f"gang:{containers}x{resource.gpus}"]), link_pb2.Change(asks=told)


def job(job_id: str, vc: str, tags: Sequence[str] = ()) -> link_pb2.Change:
    """Make a job of one of the users."""
    user = f"user{sum(job_id.encode()) % USERS}"
    made = job_pb2.Job(job_id=job_id, virtual_cluster=vc, user=user, name="train", tags=tags, attempt=1, active=True)
    made.submit_time.FromSeconds(1_790_000_000)
    return link_pb2.Change(job=made)


def chunks(changes: Sequence[link_pb2.Change], changes_max: int) -> list[Sequence[link_pb2.Change]]:
    """Cut into batches of at most so many changes."""
    return [changes[start : start + changes_max] for start in range(0, len(changes), changes_max)]


def _queues() -> Iterator[virtual_cluster_pb2.VirtualCluster]:
    total = SERVERS * SERVER_GPUS
    for number in range(PARENTS):
        quota = total // PARENTS
        yield _queue(f"root.g{number}", quota, 2 * quota, parent=True)
    for number in range(VCS):
        quota = total // VCS
        settings = {"user-fairness": "true"} if number % 5 == 0 else {}
        settings |= {"max-gpus-per-user": str(quota)} if number % 10 == 0 else {}
        yield _queue(vc_name(number), quota, 2 * quota if number % 2 else None, settings=settings.items())
    yield _queue(FULL, CONTAINERS // JOBS, CONTAINERS // JOBS)


def _queue(
    path: str, quota: int, maximum: int | None, *, parent: bool = False, settings: Iterable[tuple[str, str]] = ()
) -> virtual_cluster_pb2.VirtualCluster:
    return virtual_cluster_pb2.VirtualCluster(
        path=path, quota_gpus=quota, maximum_gpus=maximum, running=True, parent=parent, settings=dict(settings)
    )


def _server_id(number: int) -> str:
    return f"gpu-{number:05}.example:45454"


def _server(number: int) -> server_pb2.Server:
    return server_pb2.Server(
        server_id=_server_id(number),
        host=f"gpu-{number:05}.example",
        rack=f"/rack-{number // RACK_SERVERS}",
        capacity=resource_pb2.Resource(memory_mb=65_536, vcores=32, gpus=SERVER_GPUS),
        state=server_pb2.SERVER_STATE_RUNNING,
    )


def _job_id(number: int) -> str:
    return f"application_1790000000000_{number:04}"


def _container(number: int, server: int, index: int) -> container_pb2.Container:
    of = number % JOBS
    return container_pb2.Container(
        container_id=f"container_e01_1790000000000_{of:04}_01_{number:06}",
        job_id=_job_id(of),
        attempt=1,
        server_id=_server_id(server),
        resource=CONTAINER,
        gpu_indices=[index],
        key=KEY,
    )
