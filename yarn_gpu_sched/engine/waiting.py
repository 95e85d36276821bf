"""Why a job waits, in words and numbers, for who asks. The reason of each line is kept while scheduling (`settling`, law 13)."""

from collections.abc import Iterable

import msgspec

from yarn_gpu_sched.engine.causes import code_of, kept_by_gang, over_quota, refined, withheld
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.finding import find_quietly, free_gpus, free_in
from yarn_gpu_sched.engine.limits import over_job_limit, over_maximum
from yarn_gpu_sched.engine.masters import allowance
from yarn_gpu_sched.engine.phrases import listed
from yarn_gpu_sched.engine.refusing import never_fits
from yarn_gpu_sched.engine.repair import asks_replacement, holds_of
from yarn_gpu_sched.engine.want import JobWant, want_of
from yarn_gpu_sched.model.assignment import ANYWHERE, Level
from yarn_gpu_sched.model.decision import Decision
from yarn_gpu_sched.model.delay import CAUSES, Cause
from yarn_gpu_sched.model.job_record import JobRecord, ask_key
from yarn_gpu_sched.model.reason import ReasonCode, WaitingReason
from yarn_gpu_sched.model.reservation import Reservation
from yarn_gpu_sched.model.tag import shown

NAMED_MAX = 5
_NOT_WELL = "are not given out, because they or their servers are not well, or drain"

_LEVELS = {Level.FEWEST_SERVERS: "on the fewest servers in one RDMA domain", Level.ONE_DOMAIN: "in one RDMA domain"}


def waiting_reason(core: Core, record: JobRecord) -> WaitingReason | None:
    """Say why a job waits, with the numbers; None if it waits for nothing."""
    if record.end is not None or not record.known:
        return None
    if record.refusal:
        return WaitingReason(ReasonCode.REFUSED, f"{record.refusal}; the resource manager is told to end it")
    if record.gather_until_s is not None and record.want is None:
        return _gathering(core, record)
    if record.degraded_since_s is not None and not (isinstance(record.want, JobWant) and record.want.gang):
        return _degraded(core, record)
    want = record.want if isinstance(record.want, JobWant) else want_of(record)  # the former knows its ladder
    if want is None:
        return _without_want(core, record)
    return _Answer(core, record, want).reason()


def _gathering(core: Core, record: JobRecord) -> WaitingReason:
    assert record.gather_until_s is not None
    asks = [ask for ask in record.asks if ask.resource.gpus and not ask.application_master]
    containers = sum(ask.count for ask in asks)
    left_s = max(0.0, record.gather_until_s - core.now_s)
    formed = f"a gang of them is formed in {left_s:.0f} s unless the asks change"
    sentence = f"has asked {_containers(containers)} with GPUs so far; {formed}"
    gpus = sum(ask.count * ask.resource.gpus for ask in asks)
    return WaitingReason(ReasonCode.GATHERING, sentence, gpus_asked=gpus, containers_asked=containers)


def _degraded(core: Core, record: JobRecord) -> WaitingReason:
    """Say what a gang misses, what is held for it, and when it starts anew."""
    assert record.gang is not None
    holds = holds_of(core, record)
    gpus = sum(hold.held.gpus for hold in holds)
    sentence = f"{record.missing} of {_containers(record.gang.containers)} of the gang were lost"
    if holds:
        until_s = max(hold.hold_until_s or 0.0 for hold in holds) - core.now_s
        sentence += f"; {gpus} GPUs are held for the replacement for another {max(0.0, until_s):.0f} s"
    if record.requeued:
        sentence += "; the resource manager is told to start it anew as a whole"
    elif asks_replacement(record):
        left_s = record.requeue_at_s(core.settings.requeue_after_s) - core.now_s
        sentence += f"; without one it starts anew as a whole in {max(0.0, left_s):.0f} s"
    else:
        sentence += "; its master asks for no replacement"
    return WaitingReason(ReasonCode.GANG_DEGRADED, sentence, gpus_asked=gpus, containers_asked=record.missing)


def _without_want(core: Core, record: JobRecord) -> WaitingReason | None:
    sent = [one for one in (core.state.decisions[key] for key in sorted(record.decisions)) if one.hold_until_s is None]
    if sent:
        return _decided(sent)
    tag = record.gang
    if tag is None or record.gang_placed:
        if record.resync is not None and any(record.resync.surplus.get(ask_key(ask)) for ask in record.asks):
            return _repeated(record)
        if record.containers:
            return None
        return _not_asked(core, record)
    asked = sum(record.pending(ask) for ask in record.asks if not ask.application_master)
    if not asked:
        return _held_ahead(core, record, _not_asked(core, record))
    sentence = (
        f"the gang {tag} has {tag.containers} containers, the application has asked for {asked + record.served} so far"
    )
    if tag.plain:
        with_gpus = sum(record.pending(ask) for ask in record.asks if ask.resource.gpus)
        sentence += f", {with_gpus} of them with GPUs"
    reason = WaitingReason(ReasonCode.GANG_INCOMPLETE, sentence, containers_asked=tag.containers)
    return _held_ahead(core, record, reason)


def _repeated(record: JobRecord) -> WaitingReason:
    """Say why an ask is not met that counts what its job has already."""
    containers = sum(ask.count for ask in record.asks if not ask.application_master)
    sentence = (
        f"{_containers(containers)} were asked again when the resource manager had restarted, as many as the job had asked before;"
        " those that came back meet them, and what is asked anew from now on is placed"
    )
    return WaitingReason(ReasonCode.NOT_ASKED, sentence, containers_asked=containers)


def _held_ahead(core: Core, record: JobRecord, reason: WaitingReason) -> WaitingReason:
    """Add what is held for a gang that has not asked yet."""
    holds = holds_of(core, record)
    if not holds:
        return reason
    gpus = sum(hold.held.gpus for hold in holds)
    left_s = max(hold.hold_until_s or 0.0 for hold in holds) - core.now_s
    held = f"{gpus} GPUs are held for its gang for another {max(0.0, left_s):.0f} s"
    return msgspec.structs.replace(reason, sentence=f"{reason.sentence}; {held}")


def _decided(decisions: list[Decision]) -> WaitingReason:
    containers = sum(len(decision.assignments) for decision in decisions)
    servers = len({part.use.server_id for decision in decisions for part in decision.parts})
    gpus = sum(decision.total.gpus for decision in decisions)
    sentence = f"placed {_containers(containers)} with {gpus} GPUs on {_servers(servers)}; the commit is awaited"
    return WaitingReason(ReasonCode.DECIDED, sentence, gpus_asked=gpus, containers_asked=containers)


def _not_asked(core: Core, record: JobRecord) -> WaitingReason:
    if not core.session.connected:
        return _NO_RESOURCE_MANAGER
    if not record.job.active:
        sentence = _not_let(core)
    elif record.containers or record.job.unmanaged:
        sentence = "the application master has not asked for containers yet"
    else:
        sentence = "the resource manager has not asked for the application's master yet"
    return WaitingReason(ReasonCode.NOT_ASKED, sentence)


def _not_let(core: Core) -> str:
    """Say why the resource manager does not let an application ask: its own limits, or it has no servers yet."""
    if core.state.servers:
        return "the resource manager has not let the application ask yet (its own limits)"
    return "no server has registered with the resource manager yet, and until one has it lets nobody ask"


_NO_RESOURCE_MANAGER = WaitingReason(
    ReasonCode.NO_RESOURCE_MANAGER, "no resource manager is connected: nothing is placed until one is"
)


class _Answer:
    """Finds the reason of a job that wants something now."""

    def __init__(self, core: Core, record: JobRecord, want: JobWant) -> None:
        self._core = core
        self._record = record
        self._want = want
        self._demand = want.demand
        self._barred: tuple[str, ...] = want.line.barred if want.line is not None else ()
        partition = core.index.partitions.get(want.partition)
        if partition is not None:
            partition.refresh()
        self._gpus_free = free_gpus(core, want.partition)
        self._servers_free = 0 if partition is None else sum(partition.counts)

    def reason(self) -> WaitingReason:
        """Give the first reason that holds."""
        core, record = self._core, self._record
        if not core.session.connected:
            return self._say(ReasonCode.NO_RESOURCE_MANAGER, _NO_RESOURCE_MANAGER.sentence)
        if not record.job.active:
            sentence = _not_let(core)
            return self._say(ReasonCode.NOT_ASKED, sentence)
        backoff = record.backoff
        if backoff is not None and backoff.until_s > core.now_s:
            detail = f" ({backoff.detail})" if backoff.detail else ""
            pause_s = max(0.0, backoff.until_s - core.now_s)
            sentence = f"the resource manager refused the last decision as {backoff.code.value}{detail}"
            return self._say(ReasonCode.REFUSED_BY_RM, f"{sentence}; tried again in {pause_s:.1f} s")
        return self._by_capacity()

    def _by_capacity(self) -> WaitingReason:
        core, line = self._core, self._want.line
        if line is None:
            return self._in_no_line()
        code = refined(core, line, code_of(core, line))
        if code in (ReasonCode.AM_LIMIT, ReasonCode.NEVER_FITS_NOW):
            return self._masters() if code is ReasonCode.AM_LIMIT else self._never_fits_now()
        if self._demand.held_for:
            return (
                self._awaits_victims(code) if self._demand.held_for in core.preemption.plans else self._reserved(code)
            )
        if line.forbidden is not None:
            return self._say(code, f"{self._asks()}; {line.forbidden.sentence}")
        if code is ReasonCode.VC_MAXIMUM:
            return self._not_lent()
        return self._fragmented(code) if CAUSES[code] is Cause.FRAGMENTATION else self._too_few(code)

    def _awaits_victims(self, code: ReasonCode) -> WaitingReason:
        """Say who is stopped for it, and how much is held already."""
        plan = self._core.preemption.plans[self._want.job_id]
        jobs = list(dict.fromkeys(victim.job_id for victim in plan.victims))
        who = listed(jobs or ["nobody"], NAMED_MAX)
        are = "are" if len(jobs) > 1 else "is"
        until_s = plan.grace_until_s if plan.stopped_s is None else (plan.hold_until_s or plan.grace_until_s)
        left_s = max(0.0, until_s - self._core.now_s)
        held = f"{self._asks()}; {self._want.held.gpus} GPUs are held for it"
        if plan.stopped_s is None:
            return self._say(code, f"{held}; for the rest {who} {are} warned, and stopped in {left_s:.0f} s")
        for_s = f"{held} for another {left_s:.0f} s"
        return self._say(code, f"{for_s}; {who} {are} being stopped for it" if jobs else for_s)

    def _reserved(self, code: ReasonCode) -> WaitingReason:
        """Say where places are kept for it, and who holds the rest; when that is expected is the outlook's to say."""
        line, kept_gpus = self._want.line, self._want.held.gpus
        one = self._core.reservations.by_job[self._want.job_id]
        forbidden = f"; {line.forbidden.sentence}" if line.forbidden is not None else ""
        kept = f"{kept_gpus} of {one.gpus} GPUs are kept for it on {listed(one.server_ids, NAMED_MAX)}"
        rest = "" if kept_gpus >= one.gpus else f", the rest {_when_free(one)}"
        return self._say(code, f"{self._asks()}{forbidden}; it waited too long, so {kept}{rest}")

    def _in_no_line(self) -> WaitingReason:
        over = over_job_limit(self._core.state, self._core.in_force, self._want) if self._core.by_vc else ""
        if over:
            return self._say(ReasonCode.USER_LIMIT, f"{self._asks()}; {over}")
        return self._say(ReasonCode.DECIDED, "the resource manager is told to start it anew as a whole")

    def _not_lent(self) -> WaitingReason:
        """Say why it may not have what is free in a partition that lends."""
        core, want = self._core, self._want
        for name in want.line.barred:
            over = over_maximum(core.state.tenants, core.in_force, want, name)
            if over is not None and want.gpus <= free_in(core, name):
                return self._say(over.code, f'{self._asks()}; in partition "{name}", which lends, {over.sentence}')
        return self._too_few(ReasonCode.CLUSTER_FULL)

    def _too_few(self, code: ReasonCode) -> WaitingReason:
        """Say that too few GPUs are free, and whose quota it would exceed if they were."""
        sentence, over = self._asks(), over_quota(self._core, self._want.line)
        if over:
            used = self._core.state.tenants.by_path[over].gpus_used(self._want.partition)
            quota = self._core.in_force.limits(over, self._want.partition).quota_gpus
            sentence += f"; queue {over} uses {used} GPUs and its quota is {quota}, so it would borrow"
        kept = kept_by_gang(self._core, self._want.partition) if self._core.reservations.by_job else []
        reserved = sum(gpus for _, gpus in kept)
        sentence += f"; {self._free()}"
        if reserved:
            who = listed([job_id for job_id, _ in kept], NAMED_MAX)
            sentence += f", {reserved} are reserved for {who}, which waited too long"
        if code in (ReasonCode.HELD, ReasonCode.RESERVED, ReasonCode.UNHEALTHY):
            held, unusable = withheld(self._core, self._want.partition)
            sentence += f", {held - reserved} are held for other gangs" if held > reserved else ""
            if code is ReasonCode.UNHEALTHY:
                sentence += f", {unusable} {_NOT_WELL}"
        return self._say(code, sentence)

    def _fragmented(self, code: ReasonCode) -> WaitingReason:
        core, demand = self._core, self._demand
        if not self._want.line.blocked and find_quietly(core, demand, self._barred) is not None:
            return self._say(ReasonCode.DECIDED, f"{self._asks()}; it fits and is placed in its turn")
        if any(core.index.slots(demand.partition, kind.gpus) < kind.containers for kind in demand.kinds if kind.gpus):
            return self._say(code, f"{self._asks()}; {self._free()}, but {self._slots()}")
        if demand.ceiling is not ANYWHERE and find_quietly(core, demand._replace(ceiling=ANYWHERE)) is not None:
            return self._say(ReasonCode.FRAGMENTED, f"{self._asks()}; {self._free()}, but {self._level()}")
        if demand.confined and find_quietly(core, demand.unconfined) is not None:
            return self._say(
                ReasonCode.CONFINED, f"{self._asks()}; {self._free()}, but not where it may go: {self._reach()}"
            )
        return self._say(ReasonCode.OTHER_RESOURCES, f"{self._asks()}; {self._free()}, but {self._short_of()}")

    def _masters(self) -> WaitingReason:
        state, master = self._core.state, self._want.members[0][0].resource
        masters, share, whose = allowance(self._core, self._want)
        sentence = (
            f"asks {master.memory_mb} MB and {master.vcores} vcores for its master;"
            f" {masters.containers} masters{whose} hold {masters.memory_mb} MB and {masters.vcores} vcores"
            f" of the {int(share * state.gpu_servers_mb)} MB and {int(share * state.gpu_servers_vcores)} vcores"
            " that masters may have on GPU servers"
        )
        return self._say(ReasonCode.AM_LIMIT, sentence)

    def _never_fits_now(self) -> WaitingReason:
        core = self._core
        if not core.seen.has_gpus():
            known = "no GPU server has registered yet"
            if not self._demand.gpus:
                known += "; servers without GPUs are left to the resource manager's own placement"
        else:
            known = (
                never_fits(core, self._record)
                or f"{self._asks()}; the servers that run now could not hold that if empty"
            )
            _, unusable = withheld(core, self._want.partition)
            known += f"; {unusable} GPUs {_NOT_WELL}" if unusable else ""
        if not core.session.settled:
            known += "; not all servers may have registered yet"
        elif self._record.job.recovered:
            known += "; not refused, because the application was recovered"
        return self._say(ReasonCode.NEVER_FITS_NOW, known)

    def _asks(self) -> str:
        demand = self._demand
        if len(demand.kinds) == 1:
            kind = demand.kinds[0]
            if not kind.gpus:
                return f"asks {_containers(kind.containers)} of {kind.memory_mb} MB and {kind.vcores} vcores"
            if kind.containers == 1:
                return f"asks {kind.gpus} GPUs"
            return f"asks {demand.gpus} GPUs at once, {kind.containers} x {kind.gpus}"
        whose = " for its master and its gang" if demand.application_master else ""
        return f"asks {demand.gpus} GPUs in {_containers(demand.containers)} at once{whose}"

    def _free(self) -> str:
        return f"{self._gpus_free} GPUs are free on {_servers(self._servers_free)}"

    def _slots(self) -> str:
        parts = [
            f"they hold {self._core.index.slots(self._want.partition, kind.gpus)} containers of {kind.gpus} GPUs"
            for kind in self._demand.kinds
            if kind.gpus
        ]
        return " and ".join(parts)

    def _short_of(self) -> str:
        kinds = self._demand.kinds
        if not any(kind.gpus for kind in kinds):
            return "no server has so much memory and vcores beside its free GPUs' share"
        needs = " or ".join(f"{kind.memory_mb} MB and {kind.vcores} vcores" for kind in kinds)
        return f"not with {needs} a container"

    def _reach(self) -> str:
        """Say what confines it; of long lists the first few."""
        demand = self._demand
        only = dict.fromkeys(place for reach in demand.reach if reach.strict for place, _ in reach.places)
        never = dict.fromkeys(place for reach in demand.reach for place in reach.excluded)
        said = [f"only {_named(only)}"] if only else []
        said += [f"not {_named(never)}"] if never else []
        if demand.ceiling is not ANYWHERE:
            said.append(_LEVELS[demand.ceiling])
        return ", ".join(said)

    def _level(self) -> str:
        """Say at which level it has no place, and when it may go to the next."""
        level = self._demand.ceiling
        said = f"not at level {int(level)}, {_LEVELS[level]}"
        relaxes_at_s = self._core.ladder.relaxes_at_s(self._want.job_id)
        if relaxes_at_s is None:
            return f"{said}, and it goes to no looser one"
        return f"{said}; it goes to level {level + 1} in {max(0.0, relaxes_at_s - self._core.now_s):.0f} s"

    def _say(self, code: ReasonCode, sentence: str) -> WaitingReason:
        return WaitingReason(
            code=code,
            sentence=sentence,
            gpus_asked=self._demand.gpus,
            containers_asked=self._demand.containers,
            gpus_free=self._gpus_free,
            servers_free=self._servers_free,
        )


def _when_free(one: Reservation) -> str:
    if not one.awaited:
        return "as it comes free"
    return f"when {listed(one.awaited, NAMED_MAX)} end{'s' if len(one.awaited) == 1 else ''}"


def _named(places: Iterable[str]) -> str:
    names = [shown(place) for place in places]
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _containers(count: int) -> str:
    return f"{count} container{'' if count == 1 else 's'}"


def _servers(count: int) -> str:
    return f"{count} server{'' if count == 1 else 's'}"
