"""Sets the gauges of virtual clusters and of waits, now and then: a look at all of them takes some milliseconds.

Only so many virtual clusters have series of their own. Their names are their administrator's.
"""

from collections import Counter
from collections.abc import Iterable

from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.views import DelayRow, PartitionShare, VirtualClusterUse
from yarn_gpu_sched.model.delay import SIZES, Cause
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.metrics import Metrics

EVERY_S = 10.0
NAMED_MAX = 1_000
LOOKED_AT_MAX = 10_000
OTHER = "other"

Shares = dict[tuple[str, str], Counter[str]]
"""GPUs by kind, by virtual cluster and partition."""


class VirtualClusterGauges:
    """Reads an engine and sets the gauges of one service."""

    def __init__(self, metrics: Metrics, clock: Clock, engine: Engine) -> None:
        self._metrics = metrics
        self._clock = clock
        self._engine = engine
        self._next_s = clock.now_s()
        self._shown: set[tuple[str, str, str]] = set()

    def refresh(self) -> None:
        """Set the gauges if it is time."""
        if self._clock.now_s() < self._next_s:
            return
        self._next_s = self._clock.now_s() + EVERY_S
        uses, _ = self._engine.virtual_clusters(limit=LOOKED_AT_MAX)
        self._metrics.vc_warnings.set(sum(len(use.warnings) for use in uses))
        self._metrics.servers_without_domain.set(self._engine.servers_without_domain)
        shares = _shares(uses)
        self._show(shares)
        self._show_waits({vc for vc, _ in shares})

    def _show(self, shares: Shares) -> None:
        gauge = self._metrics.vc_gpus
        shown = set()
        for (vc, partition), kinds in shares.items():
            for kind, gpus in kinds.items():
                labels = (one_line(vc), one_line(partition), kind)
                gauge.labels(*labels).set(gpus)
                shown.add(labels)
        for labels in self._shown - shown:
            gauge.remove(*labels)
        self._shown = shown

    def _show_waits(self, named: set[str]) -> None:
        rows = self._engine.delays(now_s=self._clock.now_s())
        waits = waited_us(rows)
        for cause in Cause:
            for size in SIZES:
                self._metrics.waited.labels(cause.name.lower(), size).set(waits[cause, size] / 1e6)
        by_vc: Counter[tuple[str, str]] = Counter()
        for row in rows:
            vc = one_line(row.vc) if row.vc in named else OTHER
            for cause, us in _by_cause(row):
                by_vc[vc, cause.name.lower()] += us
        self._metrics.vc_waited.clear()
        for labels, us in by_vc.items():
            self._metrics.vc_waited.labels(*labels).set(us / 1e6)


def waited_us(rows: Iterable[DelayRow]) -> Counter[tuple[Cause, str]]:
    """Add up how long was waited, by cause and size, over all virtual clusters; those that wait now count too."""
    waits: Counter[tuple[Cause, str]] = Counter()
    for row in rows:
        for cause, us in _by_cause(row):
            waits[cause, row.size] += us
    return waits


def _by_cause(row: DelayRow) -> list[tuple[Cause, int]]:
    both = row.delays.plus(row.waiting_delays)
    return list(zip(Cause, (both.fair_share_us, both.capacity_us, both.fragmentation_us, both.other_us), strict=True))


def _shares(uses: list[VirtualClusterUse]) -> Shares:
    """Take the first that an administrator gave something; the use of all others is one sum a partition."""
    named: Shares = {}
    others: Shares = {}
    for use in uses:
        for share in use.shares:
            key = (use.virtual_cluster.path, share.partition)
            if (share.quota_gpus is not None or share.maximum_gpus is not None) and len(named) < NAMED_MAX:
                named[key] = _kinds(share)
            elif not use.virtual_cluster.parent:
                others.setdefault((OTHER, share.partition), Counter()).update(_kinds(share))
    return others | named


def _kinds(share: PartitionShare) -> Counter[str]:
    kinds = Counter({"used": share.used_gpus, "borrowed": share.borrowed_gpus})
    if share.quota_gpus is not None:
        kinds["quota"] = share.quota_gpus
    if share.maximum_gpus is not None:
        kinds["maximum"] = share.maximum_gpus
    return kinds
