"""Changes of a small cluster, as a resource manager would send them."""

from collections.abc import Sequence

from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    container_pb2,
    decision_pb2,
    job_pb2,
    link_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

VC = "root.research"


def resource(gpus: int = 0, memory_mb: int = 1_024, vcores: int = 1) -> resource_pb2.Resource:
    return resource_pb2.Resource(memory_mb=memory_mb, vcores=vcores, gpus=gpus)


def server(server_id: str = "gpu-1:45454", gpus: int = 4, **more: object) -> link_pb2.Change:
    message = server_pb2.Server(
        server_id=server_id,
        host=server_id.partition(":")[0],
        rack="/rack-a",
        capacity=resource(gpus, memory_mb=65_536, vcores=64),
        state=server_pb2.SERVER_STATE_RUNNING,
    )
    message.MergeFrom(server_pb2.Server(**more))  # type: ignore[arg-type] # checked by protobuf
    return link_pb2.Change(server=message)


def virtual_cluster(path: str = VC, quota_gpus: int | None = 8) -> link_pb2.Change:
    return link_pb2.Change(
        virtual_cluster=virtual_cluster_pb2.VirtualCluster(path=path, quota_gpus=quota_gpus, running=True)
    )


def job(job_id: str = "job-1", tags: Sequence[str] = (), vc: str = VC, **more: object) -> link_pb2.Change:
    message = job_pb2.Job(job_id=job_id, virtual_cluster=vc, user="ada", name=job_id, tags=tags, attempt=1, active=True)
    message.submit_time.FromSeconds(1_790_000_000)
    message.MergeFrom(job_pb2.Job(**more))  # type: ignore[arg-type] # checked by protobuf
    return link_pb2.Change(job=message)


def asks(job_id: str = "job-1", count: int = 1, gpus: int = 1, attempt: int = 1) -> link_pb2.Change:
    wanted = [ask_pb2.Ask(key=ask_pb2.RequestKey(priority=1), count=count, resource=resource(gpus))]
    return link_pb2.Change(asks=ask_pb2.JobAsks(job_id=job_id, attempt=attempt, asks=wanted if count else ()))


def container(
    container_id: str = "container-1",
    job_id: str = "job-1",
    server_id: str = "gpu-1:45454",
    gpu_indices: Sequence[int] = (0,),
    **more: object,
) -> link_pb2.Change:
    message = container_pb2.Container(
        container_id=container_id,
        job_id=job_id,
        attempt=1,
        server_id=server_id,
        resource=resource(len(gpu_indices)),
        gpu_indices=gpu_indices,
        key=ask_pb2.RequestKey(priority=1),
    )
    message.MergeFrom(container_pb2.Container(**more))  # type: ignore[arg-type] # checked by protobuf
    return link_pb2.Change(container=message)


def many_containers(count: int) -> list[link_pb2.Change]:
    """Make many containers with long names of one job, and the servers under them."""
    servers = [f"gpu-{index}:45454" for index in range(count // 50)]
    held = [
        container(f"{index:05}-{'c' * 230}", gpu_indices=(), server_id=servers[index % len(servers)])
        for index in range(count)
    ]
    return [*(server(server_id) for server_id in servers), *held]


def released(container_id: str = "container-1") -> link_pb2.Change:
    return link_pb2.Change(container_released=container_pb2.ContainerReleased(container_id=container_id))


def ended(job_id: str = "job-1", end: job_pb2.JobEnd.ValueType = job_pb2.JOB_END_SUCCEEDED) -> link_pb2.Change:
    return link_pb2.Change(job_ended=job_pb2.JobEnded(job_id=job_id, end=end))


def outcome(
    decision_id: int,
    container_ids: Sequence[str] = (),
    code: decision_pb2.OutcomeCode.ValueType = decision_pb2.OUTCOME_CODE_COMMITTED,
    detail: str = "",
) -> link_pb2.Change:
    return link_pb2.Change(
        outcome=decision_pb2.Outcome(decision_id=decision_id, code=code, container_ids=container_ids, detail=detail)
    )


def committed(decision: decision_pb2.Decision) -> link_pb2.Change:
    """Report a gang as committed, under container ids made from the decision's own."""
    count = len(decision.place_gang.assignments)
    names = [f"container-{decision.decision_id}-{index}" for index in range(count)]
    return outcome(decision.decision_id, names)
