"""What all handlers of an engine share: the state, what waits, and the commands of the event at hand."""

from bisect import bisect_left, insort
from collections import OrderedDict
from heapq import heappush
from itertools import islice

from yarn_gpu_sched.engine.capacity_seen import CapacitySeen, Grounds
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.engine.counters import Counters
from yarn_gpu_sched.engine.health_book import HealthBook
from yarn_gpu_sched.engine.in_force import InForce
from yarn_gpu_sched.engine.ladder import Ladder
from yarn_gpu_sched.engine.limits import barred, forbidden, held_for, over_job_limit
from yarn_gpu_sched.engine.overdue import watch, watch_all
from yarn_gpu_sched.engine.preemption import Preemption, watch_waiting
from yarn_gpu_sched.engine.queue import Line, Queue
from yarn_gpu_sched.engine.reservations import Reservations
from yarn_gpu_sched.engine.session import Session
from yarn_gpu_sched.engine.settings import EngineSettings
from yarn_gpu_sched.engine.thresholds import Thresholds
from yarn_gpu_sched.engine.waits import Waits
from yarn_gpu_sched.engine.want import JobWant, want_of
from yarn_gpu_sched.model.cluster import ClusterState
from yarn_gpu_sched.model.job import PENDING, RUNNING, JobState
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.shares import ROOT, lineage
from yarn_gpu_sched.placement import FreeIndex
from yarn_gpu_sched.policy import Policy, policy_named
from yarn_gpu_sched.policy.group import Group, together

LOOKED_AT_MORE = 64
"""Ended jobs that are looked at beyond the surplus, because some may still hold something."""
NOBODY = ".."
"""A path that no queue has: limits are to be looked at again, and nobody stands elsewhere."""
GROUPS_MAX = 65_536
"""Groups that are kept to be found again; more users than that begin anew."""


class Core:
    """The parts of an engine.

    ``to_check`` are jobs to be held against law 10 once capacity has settled, ``resting`` when jobs come back from a back-off,
    ``running`` the jobs that run, ``expiring`` when they have run as long as they may, ``policy_wake_s`` when the policy wants
    another pass, ``unexamined`` whether anything happened since the last one could look at all that is ready, ``degraded`` those
    whose gangs miss a member, ``ahead`` those for whose gangs GPUs are held since their masters were placed, ``gathering`` those
    whose asks are watched, ``ended`` the ended jobs, oldest first (a plain dictionary walks over what was taken from its front),
    ``order`` all jobs in order of submission. ``by_vc``: the policy goes by virtual clusters, so their limits hold.
    """

    def __init__(self, settings: EngineSettings, policy: Policy | None = None) -> None:
        self.settings = settings
        self.index = FreeIndex(place_on_cpu_servers=settings.place_on_cpu_servers)
        self.state = ClusterState(self.index, settings.cpu_share)
        self.policy = policy or policy_named(settings.policy)
        self.seen = CapacitySeen()
        self.in_force = InForce(self.state.tenants, self.seen)
        self.limits_stale: dict[str, None] = {}
        self.by_vc = self.state.tenants.watched = getattr(self.policy, "grouped", False)  # one's own need not say so
        self.waits = Waits()
        self.thresholds = Thresholds()
        self.queue = Queue(self.index, self.policy.key, self.waits, self._group_of if self.by_vc else together)
        self.ladder = Ladder(self.index, self._step_s)
        self.session = Session()
        self.health = HealthBook()
        self._groups: dict[tuple[str, str, str], Group] = {}
        self.running: dict[str, JobRecord] = {}
        self.running_in: dict[str, dict[str, JobRecord]] = {}
        self.preemption = Preemption(settings.preemption)
        self.reservations = Reservations()
        self.expiring: list[tuple[float, str]] = []
        self.unexamined = False
        self.policy_wake_s: float | None = None
        self.counters = Counters(self.index.visits)
        self.now_s = 0.0
        self.next_decision_id = 1
        self.order: list[tuple[float, str]] = []
        self.ended: OrderedDict[str, None] = OrderedDict()
        self.to_check: dict[str, None] = {}
        self.to_refuse: dict[str, None] = {}
        self.verdicts: dict[str, Grounds] = {}  # for the audit alone, which looks at verdicts of this engine's own
        self.resting: list[tuple[float, str]] = []
        self.degraded: dict[str, None] = {}
        self.ahead: dict[str, None] = {}
        self.gathering: dict[str, None] = {}
        self.changed_partitions: dict[str, None] = {}
        self.jobs_pending = self.jobs_running = 0
        self.commands: list[AnyCommand] = []
        self.touched: dict[str, None] = {}
        self._lending: list[str] = []

    # Virtual clusters

    def _group_of(self, record: JobRecord, partition: str) -> Group:
        vc = record.job.vc
        settings = self.in_force.settings(vc)
        by_user = settings.user_fairness or settings.max_gpus_per_user is not None
        user = record.job.user if by_user else ""
        group = self._groups.get((partition, vc, user))
        if group is None:
            if len(self._groups) >= GROUPS_MAX:
                self._groups.clear()
            group = self._groups[partition, vc, user] = Group(
                partition, lineage(vc), user, by_user, settings.user_fairness
            )
        return group

    def _step_s(self, record: JobRecord) -> float:
        """Say how long a gang waits at a level: as its tag says, up to a maximum, else as its virtual cluster, else as all do."""
        of_vc = self.in_force.settings(record.job.vc)
        if record.relax_after_s is None:
            return self.settings.relax_after_s if of_vc.relax_after_s is None else of_vc.relax_after_s
        most_s = self.settings.relax_after_max_s if of_vc.relax_after_max_s is None else of_vc.relax_after_max_s
        return min(record.relax_after_s, most_s)

    def limits_changed(self, path: str = ROOT) -> None:
        """Note a change of what a queue, and those below it, may have. Many may be told at once: they are followed together."""
        self.in_force.changed()
        self._groups.clear()
        self.thresholds.stale = True
        self.limits_stale[path] = None
        self.preemption.limits_changed()

    def capacity_changed(self) -> None:
        """Note that what is so much percent of all is another amount now: nobody stands elsewhere for that."""
        self.in_force.changed()
        self.thresholds.stale = True
        self.limits_stale[NOBODY] = None
        self.preemption.limits_changed()

    def follow_limits(self) -> None:
        """Follow what was noted: jobs stand where they belong now, within the limits that hold now."""
        paths = [ROOT] if ROOT in self.limits_stale else list(self.limits_stale)
        self.limits_stale.clear()
        if not self.by_vc:
            return
        for line in [line for path in paths for line in self.queue.lines_below(path)]:
            for record in list(line.jobs.values()):
                self._stand(record)
        for line in self.queue.lines():
            self._judge(line)
        for record in [one for one in self.state.jobs.values() if one.asks and one.want is None]:
            self._stand(record)
        self.queue.wake_masters()
        watch_all(self)

    def follow_use(self) -> None:
        """Hold to their limits whoever shares one with a virtual cluster whose use changed."""
        changed = self.state.tenants.changed
        for vc in changed:
            self.preemption.use_changed(vc)
        if self.queue:
            self.thresholds.used.update(changed)
            if self.in_force.limited:
                self._judge_sharing(changed)
        changed.clear()

    def _judge_sharing(self, changed: dict[str, bool]) -> None:
        grown: dict[str, bool] = {}
        for vc, grew in changed.items():
            path = self.in_force.sharing(vc)
            grown[path] = grew or grown.get(path, False)
        for path, grew in grown.items():
            for line in self.queue.lines_below(path):
                if grew or line.forbidden is not None or line.barred:  # less use forbids nobody else
                    self._judge(line)

    def may_go_on(self, line: Line) -> bool:
        """Tell whether no limit forbids a line what it wants; use that changed and was not followed yet counts."""
        if self.state.tenants.changed and self.in_force.limited:
            self._judge(line)
        return line.forbidden is None

    def _judge(self, line: Line) -> None:
        """Let a line wait while a limit forbids what it wants; its jobs' timers pause meanwhile (law 8)."""
        want = line.any_want()
        found = forbidden(self.state.tenants, self.in_force, want) if self.by_vc else None
        if line.barred or (self.index.lending and not want.partition):
            self._judge_lending(line, want)
        if found == line.forbidden:
            return
        allowed = line.forbidden is not None and found is None
        self.queue.forbid(line, found)
        self.thresholds.judged[line.number] = line
        for record in list(line.jobs.values()):
            if allowed:
                self._stand(record)
            else:
                self.ladder.pause(record, self.now_s)

    def _judge_lending(self, line: Line, want: JobWant) -> None:
        """Keep a line from partitions that lend while a limit forbids it there; let it look again where one does no more."""
        before, lending = line.barred, self.index.lending if self.by_vc and not want.partition else ()
        line.barred = barred(self.state.tenants, self.in_force, want, lending)
        self.thresholds.judged[line.number] = line
        if line.blocked and line.forbidden is None and any(name not in line.barred for name in before):
            self.queue.forbid(line, None)

    def follow_servers(self) -> None:
        """Follow a change of servers: what the empty cluster allows may be another level now, and other partitions may lend."""
        lends_otherwise, self._lending = self._lending != self.index.lending, self.index.lending
        for line in self.queue.lines() if self.ladder.climbing or lends_otherwise else ():
            if lends_otherwise and self.state.tenants.watched:
                self._judge(line)
            fits = self.ladder.fits(line.demand.partition, line.demand.kinds)
            if fits is line.fits and not line.demand.reach:
                continue
            line.fits = fits
            for job_id, record in list(line.jobs.items()):
                if job_id in self.ladder.climbing and not self.ladder.stays(record, self.now_s):
                    self.changed(record)

    # Jobs

    def add_to_order(self, record: JobRecord) -> None:
        """Let a job stand in the order of submission."""
        insort(self.order, record.order)

    def remove_from_order(self, record: JobRecord) -> None:
        """Take a job out of the order of submission."""
        place = bisect_left(self.order, record.order)
        del self.order[place]

    def changed(self, record: JobRecord) -> None:
        """Follow a change of a job: its want, its state, the counts of jobs by state."""
        job_id = record.job.job_id
        self.touched[job_id] = None
        if record.asks or record.want is not None:
            self._stand(record)
        if record.want is None:
            self.waits.unsettled[job_id] = None
        state = record.state if record.known else None
        if state is RUNNING or record.counted is RUNNING:
            self.preemption.job_changed(job_id, record.job.vc)
        if state is not record.counted:
            self._count_as(record, state)

    def _stand(self, record: JobRecord) -> None:
        """Let a job stand where what it wants now belongs."""
        want = self._want(record) if record.asks else None
        if want is None and record.want is None:
            return
        self.ladder.hold(record, want, self.now_s)
        self.queue.put(record, want)
        if not self.by_vc:
            return
        watch_waiting(self, record, want)
        if want is None:
            return
        if want.line.alone:
            self._judge(want.line)
        if want.line.forbidden is not None:
            self.ladder.pause(record, self.now_s)

    def gang_decided(self, record: JobRecord) -> None:
        """Follow the decision of a job's gang: it wants nothing until the outcome is known, and is as pending as before."""
        record.gang_under_way = True
        self.touched[record.job.job_id] = None
        if record.ladder_begun_us is not None:
            self.ladder.pause(record, self.now_s)
        self.queue.put(record, None)
        watch_waiting(self, record, None)
        self.waits.unsettled[record.job.job_id] = None

    def _want(self, record: JobRecord) -> JobWant | None:
        if not record.known or not record.job.active or record.end is not None or record.refusal or record.requeued:
            return None
        want = want_of(record) if record.backoff_until_s <= self.now_s else None
        if want is not None and want.with_gang and self.keeps_for(record.job.job_id):
            want.demand = want.demand._replace(held_for=record.job.job_id)
            want.held = held_for(self.state, record)
            want.held_in = self.reservations.partition_of(record.job.job_id, want.partition)
        return None if want is None or (self.by_vc and over_job_limit(self.state, self.in_force, want)) else want

    def keeps_for(self, job_id: str) -> bool:
        """Tell whether places are kept for a job's gang: since others are stopped for it, or since it has waited too long."""
        return job_id in self.preemption.plans or job_id in self.reservations.by_job

    def settle_job(self, record: JobRecord) -> None:
        """Follow a change of what a job holds; a job that only its containers spoke of goes with the last of them."""
        if record.known or record.containers or record.decisions:
            self.changed(record)
        else:
            self.forget(record)

    def uncount(self, record: JobRecord) -> None:
        """Take a job out of the counts by state."""
        if record.counted is not None:
            self._count_as(record, None)

    def _count_as(self, record: JobRecord, state: JobState | None) -> None:
        """Keep the counts of jobs by state, and the list of those that run."""
        before, record.counted = record.counted, state
        virtual_cluster = self.state.virtual_clusters[record.job.vc]
        if before is PENDING:
            self.jobs_pending -= 1
            virtual_cluster.jobs_pending -= 1
        elif before is RUNNING:
            self.jobs_running -= 1
            virtual_cluster.jobs_running -= 1
            self._stop(record)
        if state is PENDING:
            self.jobs_pending += 1
            virtual_cluster.jobs_pending += 1
            if record.wait.since_us is None and self.session.snapshot_ended:
                self.waits.begin(record)
            return
        if state is not None:
            self.waits.end(record)
        if state is RUNNING:
            self.jobs_running += 1
            virtual_cluster.jobs_running += 1
            self.running[record.job.job_id] = record
            self.running_in.setdefault(record.job.vc, {})[record.job.job_id] = record
            record.started_s = self.now_s if record.started_s is None else record.started_s
            watch(self, record)

    def move(self, record: JobRecord, vc: str) -> None:
        """Count a job, before it is there, for the virtual cluster to which it goes; it has run and waits as long as before."""
        before, after = self.state.virtual_clusters[record.job.vc], self.state.virtual_cluster(vc)
        if record.counted is PENDING:
            before.jobs_pending -= 1
            after.jobs_pending += 1
        elif record.counted is RUNNING:
            before.jobs_running -= 1
            after.jobs_running += 1
            self._leave_running(record)
            self.running_in.setdefault(vc, {})[record.job.job_id] = record

    def _stop(self, record: JobRecord) -> None:
        """Count what a job has attained that runs no more."""
        started_s = self.running.pop(record.job.job_id).started_s
        self._leave_running(record)
        assert started_s is not None
        record.attained_gpu_s += (self.now_s - started_s) * record.gpus
        record.started_s = None

    def _leave_running(self, record: JobRecord) -> None:
        running = self.running_in[record.job.vc]
        del running[record.job.job_id]
        if not running:
            del self.running_in[record.job.vc]
        self.preemption.use_changed(record.job.vc)

    def forget(self, record: JobRecord) -> None:
        """Drop a job for good: it holds nothing and nothing is under way for it."""
        if record.want is not None:
            self.queue.put(record, None)
        self.uncount(record)
        job_id = record.job.job_id
        if record.known:
            self.remove_from_order(record)
        self.ladder.pause(record, self.now_s)
        self.waits.forget(record)
        self.ended.pop(job_id, None)
        self.to_check.pop(job_id, None)
        self.to_refuse.pop(job_id, None)
        self.verdicts.pop(job_id, None)
        self.degraded.pop(job_id, None)
        self.gathering.pop(job_id, None)
        self.touched.pop(job_id, None)
        self.preemption.forget(job_id)
        self.reservations.forget(job_id)
        self.state.drop_job(job_id)

    def forget_old_jobs(self) -> None:
        """Keep at most so many ended jobs; those that still hold something stay."""
        surplus = len(self.ended) - self.settings.ended_jobs_max
        if surplus <= 0:
            return
        droppable: list[JobRecord] = []
        for job_id in islice(self.ended, surplus + LOOKED_AT_MORE):
            record = self.state.jobs[job_id]
            if not record.containers and not record.decisions:
                droppable.append(record)
        for record in droppable[:surplus]:
            self.forget(record)

    def refuse(self, record: JobRecord, sentence: str) -> None:
        """Mark a job as one that can never run; the next pass orders its end. Not if it was recovered or its workers run."""
        if record.refusal or record.end is not None or record.job.recovered or record.has_workers:
            return
        record.refusal = sentence
        self.to_refuse[record.job.job_id] = None
        self.changed(record)

    def rest(self, record: JobRecord) -> None:
        """Remember when a job comes back from its pause."""
        heappush(self.resting, (record.backoff_until_s, record.job.job_id))

    # Freed

    def freed(self, partition: str, *, by_master: bool) -> None:
        """Wake whom it serves that something was freed on a server of this partition; ``by_master``: what a master held."""
        self.preemption.changed(partition)
        self.queue.wake_freed(partition)
        if partition in self.index.lending:
            self.queue.wake_freed("")
        if by_master:
            self.queue.wake_masters()
