"""A small world around an engine: it plays the resource manager, and audits after every event."""

from yarn_gpu_sched.engine import Engine, EngineSettings
from yarn_gpu_sched.engine.commands import AnyCommand, AnyDecision, PlaceGang, RefuseJob
from yarn_gpu_sched.engine.events import (
    AsksChanged,
    ContainerReleased,
    ContainerSeen,
    Event,
    JobChanged,
    JobEnded,
    OutcomeReported,
    Pass,
    ResourceManagerRegistered,
    ServerChanged,
    ServerRemoved,
    SnapshotEnded,
    VirtualClusterChanged,
)
from yarn_gpu_sched.model.ask import Ask, PlaceAsk, RequestKey
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job, JobEnd
from yarn_gpu_sched.model.outcome import OutcomeCode
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server, ServerState
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster
from yarn_gpu_sched.policy import Facts

AM = Resource(memory_mb=512, vcores=1)


def server(  # noqa: PLR0913 - one parameter a field
    server_id: str,
    gpus: int = 4,
    *,
    rack: str = "/r1",
    memory_mb: int = 65_536,
    vcores: int = 64,
    partition: str = "",
    state: ServerState = ServerState.RUNNING,
    lends: bool = False,
) -> Server:
    """Make a server; roomy unless said otherwise."""
    return Server(server_id, server_id, rack, Resource(memory_mb, vcores, gpus), partition, state, lends)


def worker(gpus: int, memory_mb: int = 1024, vcores: int = 1) -> Resource:
    """Give what a worker asks."""
    return Resource(memory_mb, vcores, gpus)


def ask(
    count: int,
    resource: Resource,
    priority: int = 1,
    *,
    am: bool = False,
    partition: str = "",
    at: dict[str, int] | None = None,
    strict: bool = False,
) -> Ask:
    """Make an ask at a priority; ``at`` are the places that it names, with the containers wanted there."""
    places = tuple(PlaceAsk(place, wanted) for place, wanted in (at or {}).items())
    return Ask(RequestKey(priority), count, resource, am, partition, places, strict)


class InOrder:
    """The turns of a policy that lets all go in order of submission."""

    def key(self, job: Facts) -> float:
        del job
        return 0.0


class World:
    """An engine with a resource manager that does what it is told."""

    def __init__(
        self, settings: EngineSettings | None = None, engine: Engine | None = None, *, audited: bool = True
    ) -> None:
        self.engine = engine or Engine(settings)
        self.audited = audited
        self.now_s = 0.0
        self.events: list[Event] = []
        self.commands: list[AnyCommand] = []
        self.places: list[PlaceGang] = []
        self.refusals: list[RefuseJob] = []
        self.containers_made = 0
        self.submitted = 0

    def apply(self, event: Event) -> list[AnyCommand]:
        self.events.append(event)
        commands = self.engine.apply(event)
        self.commands.extend(commands)
        self.places.extend(command for command in commands if isinstance(command, PlaceGang))
        self.refusals.extend(command for command in commands if isinstance(command, RefuseJob))
        if self.audited:
            assert self.engine.audit() == []
        return commands

    def up(self, *servers: Server, settle_left_s: float = 0.0, cluster_id: str = "c", epoch: int = 1) -> "World":
        self.apply(
            ResourceManagerRegistered(now_s=self.now_s, cluster_id=cluster_id, epoch=epoch, settle_left_s=settle_left_s)
        )
        for one in servers:
            self.apply(ServerChanged(now_s=self.now_s, server=one))
        self.apply(SnapshotEnded(now_s=self.now_s))
        return self

    def change(self, one: Server) -> list[AnyCommand]:
        return self.apply(ServerChanged(now_s=self.now_s, server=one))

    def remove(self, server_id: str) -> list[AnyCommand]:
        return self.apply(ServerRemoved(now_s=self.now_s, server_id=server_id))

    def configure(self, path: str, **fields: object) -> None:
        values: dict[str, object] = {"path": path, **fields}
        one = VirtualCluster(**values)  # type: ignore[arg-type] # the fields of VirtualCluster, by name
        self.apply(VirtualClusterChanged(now_s=self.now_s, virtual_cluster=one))

    def submit(self, job_id: str, *tags: str, **fields: object) -> Job:
        self.submitted += 1
        values: dict[str, object] = {"vc": "root.a", "submit_time_s": float(self.submitted), **fields}
        job = Job(job_id=job_id, tags=tags, **values)  # type: ignore[arg-type] # the fields of Job, by name
        self.apply(JobChanged(now_s=self.now_s, job=job))
        return job

    def ask(self, job_id: str, *asks: Ask, attempt: int = 1, blacklist: tuple[str, ...] = ()) -> list[AnyCommand]:
        changed = AsksChanged(now_s=self.now_s, job_id=job_id, attempt=attempt, asks=asks, blacklist=blacklist)
        return self.apply(changed)

    def decide(self) -> list[PlaceGang]:
        """One pass; the placements that it decided."""
        before = len(self.places)
        self.apply(Pass(now_s=self.now_s))
        return self.places[before:]

    def commit(self, *decisions: AnyDecision) -> None:
        for decision in decisions:
            ids: tuple[str, ...] = ()
            if isinstance(decision, PlaceGang):
                ids = tuple(f"k{self.containers_made + n}" for n in range(len(decision.assignments)))
                self.containers_made += len(ids)
            self.apply(
                OutcomeReported(
                    now_s=self.now_s,
                    decision_id=decision.decision_id,
                    code=OutcomeCode.COMMITTED,
                    container_ids=ids,
                )
            )

    def refuse(self, decision: AnyDecision, code: OutcomeCode = OutcomeCode.NO_FIT) -> None:
        self.apply(OutcomeReported(now_s=self.now_s, decision_id=decision.decision_id, code=code, detail="not so"))

    def run(self, rounds_max: int = 1_000) -> list[PlaceGang]:
        """Decide and commit until nothing more is decided."""
        placed: list[PlaceGang] = []
        for _ in range(rounds_max):
            decided = self.decide()
            if not decided:
                return placed
            placed.extend(decided)
            self.commit(*decided)
        raise AssertionError("still deciding")

    def seen(self, container_id: str, job_id: str, server_id: str, resource: Resource, **fields: object) -> None:
        values: dict[str, object] = {"attempt": 1, **fields}
        container = Container(container_id, job_id, server_id=server_id, resource=resource, **values)  # type: ignore[arg-type] # the fields of Container, by name
        self.apply(ContainerSeen(now_s=self.now_s, container=container))

    def release(self, container_id: str, *, lost: bool = False) -> list[AnyCommand]:
        return self.apply(ContainerReleased(now_s=self.now_s, container_id=container_id, lost=lost))

    def end(self, job_id: str, how: JobEnd = JobEnd.SUCCEEDED, *, release: bool = True) -> None:
        """End a job and release what it holds."""
        self.apply(JobEnded(now_s=self.now_s, job_id=job_id, end=how))
        if release:
            self.release_all(job_id)

    def release_all(self, job_id: str) -> None:
        view = self.engine.job(job_id)
        assert view is not None
        for container in view.containers:
            self.release(container.container_id)

    def live(self, job_id: str) -> list[Container]:
        view = self.engine.job(job_id)
        return [] if view is None else [one for one in view.containers if not one.application_master]

    def why(self, job_id: str) -> str:
        reason = self.engine.waiting(job_id)
        return "" if reason is None else f"{reason.code.value}: {reason.sentence}"
