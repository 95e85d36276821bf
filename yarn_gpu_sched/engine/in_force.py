"""What the queues' configuration comes to: quotas and maxima in whole units by partition, settings, and what is wrong with it.

It is worked out anew only when a queue or the largest capacity of a partition changed. Quotas in percent and as weights are of the
largest capacity that the partition ever had: they do not shrink while servers are away.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from yarn_gpu_sched.engine.capacity_seen import CapacitySeen
from yarn_gpu_sched.engine.start_rules import LISTED_MAX, key_of, refused_at_start
from yarn_gpu_sched.model.capacity_text import Amount, Capacity, CapacityError, Measure, read_capacity, read_maximum
from yarn_gpu_sched.model.job_record import JobRecord
from yarn_gpu_sched.model.queue_settings import QueueSettings, read_settings
from yarn_gpu_sched.model.shares import ALL_PERCENT, ROOT, lineage, maxima, parent_of, translate
from yarn_gpu_sched.model.tenants import Tenants, VirtualClusterRecord
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

NOTHING = Capacity()

NO_SETTINGS = QueueSettings()

READ_MAX = 8_192
"""Texts whose meaning is remembered: most queues say what they said before."""

USER_SETTING = "max-gpus-per-user"


class Limits(NamedTuple):
    """What a queue has and may have of a partition; None: nobody says. ``translated``: the quota was not configured in GPUs."""

    quota_gpus: int | None = None
    translated: bool = False
    maximum_gpus: int | None = None
    maximum_mb: int | None = None
    maximum_vcores: int | None = None


NO_LIMITS = Limits()


class InForce:
    """See the module."""

    def __init__(self, tenants: Tenants, seen: CapacitySeen) -> None:
        self._tenants = tenants
        self._seen = seen
        self._limits: dict[tuple[str, str], Limits] = {}
        self._settings: dict[str, QueueSettings] = {}
        self._parts: dict[str, float | None] = {}
        self._bounds: dict[tuple[str, str], list[tuple[str, Limits]]] = {}
        self._sharing: dict[str, str] = {}
        self._partitions: dict[str, list[str]] = {}
        self._warnings: dict[str, list[str]] = {}
        self._oversubscribed: dict[str, list[str]] = {}
        self._unchecked: dict[str, VirtualCluster] = {}
        self._limited: bool | None = None
        self._limited_paths: set[str] = set()
        self._stale = True
        self.changes = 0

    def changed(self) -> None:
        """Follow a change of a queue or of a largest capacity; ``changes`` counts them."""
        self.changes += 1
        self._stale = True
        self._limited = None

    @property
    def limited(self) -> bool:
        """Whether any queue says a limit: known without working all out, as many queues may be told one after another."""
        if self._limited is None:
            self._limited = any(map(_says_a_limit, self._tenants.by_path.values()))
        return self._limited

    def sharing(self, vc: str) -> str:
        """Name the highest queue whose limits a virtual cluster shares with others; itself, if there is none above it."""
        if self._stale:
            self._refresh()
        found = self._sharing.get(vc)
        if found is None:
            found = self._sharing[vc] = next((path for path in lineage(vc) if path in self._limited_paths), vc)
        return found

    @property
    def warnings(self) -> dict[str, list[str]]:
        """Say what is wrong with the configuration, by path, a sentence each."""
        self._refresh()
        unchecked, self._unchecked = self._unchecked, {}
        for path, sentence in refused_at_start(unchecked):  # nobody but readers needs it
            self._warn(path, sentence)
        return self._warnings

    @property
    def oversubscribed(self) -> dict[str, list[str]]:
        """Say where quotas are more than the cluster has; only once its capacity has settled does that mean anything."""
        self._refresh()
        return self._oversubscribed

    def partitions(self, path: str) -> list[str]:
        """List the partitions of which a queue has a quota or a maximum in GPUs."""
        self._refresh()
        return self._partitions.get(path, [])

    def limits(self, path: str, partition: str) -> Limits:
        """Give what a queue has of a partition, by itself: what those above it have limits it too."""
        if self._stale:  # it is asked for every want that is examined
            self._refresh()
        return self._limits.get((path, partition), NO_LIMITS)

    def bounds(self, vc: str, partition: str) -> list[tuple[str, Limits]]:
        """List the maxima of a partition that hold for a virtual cluster, the lowest queue's first."""
        if self._stale:
            self._refresh()
        bounds = self._bounds.get((vc, partition))
        if bounds is None:
            found = [(path, self._limits.get((path, partition), NO_LIMITS)) for path in lineage(vc)[::-1]]
            bounds = self._bounds[vc, partition] = [
                one for one in found if any(most is not None for most in one[1][2:])
            ]
        return bounds

    def part(self, path: str) -> float | None:
        """Say what part of all GPUs ever seen a queue's quotas are, at most all; None if it has none, or quotas of 0."""
        self._refresh()
        if path not in self._parts:
            self._parts[path] = self._part(path)
        return self._parts[path]

    def _part(self, path: str) -> float | None:
        quotas = [one.quota_gpus for (of, _), one in self._limits.items() if of == path and one.quota_gpus is not None]
        total = sum(self._seen.total(partition)[0] for partition in self._seen.most)
        return min(1.0, sum(quotas) / total) if any(quotas) and total else None

    def settings(self, path: str) -> QueueSettings:
        """Give a queue's settings, those of the queues above it included."""
        if self._stale:
            self._refresh()
        found = self._settings.get(path)
        return self._settings_above(path) if found is None else found

    def declared_s(self, record: JobRecord) -> int | None:
        """Say how long a job runs at most, by its tag or its queue, and by the resource manager's limit; None if nobody does."""
        said = self.settings(record.job.vc).default_runtime_s if record.runtime_s is None else record.runtime_s
        known = [seconds for seconds in (said, record.job.lifetime_s) if seconds is not None]
        return min(known, default=None)

    def _settings_above(self, path: str) -> QueueSettings:
        name = parent_of(path)
        while name is not None and name not in self._settings:
            name = parent_of(name)
        return NO_SETTINGS if name is None else self._settings[name]

    def _refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        self._limits.clear()
        self._settings.clear()
        self._parts.clear()
        self._bounds.clear()
        self._sharing.clear()
        self._partitions.clear()
        self._warnings = {}
        self._oversubscribed = {}
        told = {path: one.virtual_cluster for path, one in sorted(self._tenants.by_path.items()) if one.virtual_cluster}
        for path in sorted(told, key=lambda path: (path.count("."), path)):
            self._read_settings(path, told[path])
        partitions = {"": None} | {one.partition: None for vc in told.values() for one in vc.capacities}
        for partition in partitions:
            self._read_partition(partition, told)
        self._unchecked = told
        self._limited_paths = {
            path for (path, _), one in self._limits.items() if any(most is not None for most in one[2:])
        }

    def _read_settings(self, path: str, vc: VirtualCluster) -> None:
        above = self._settings_above(path)
        if vc.debounce:
            above = msgspec.structs.replace(above, debounce=True)
        self._settings[path], wrong = read_settings(vc.settings, above)
        for sentence in wrong:
            self._warn(path, sentence)

    def _read_partition(self, partition: str, told: dict[str, VirtualCluster]) -> None:
        gpus, memory_mb, vcores = self._seen.total(partition)
        quotas = {path: self._capacity(path, vc, partition, maximum=False) for path, vc in told.items() if path != ROOT}
        most = {path: self._capacity(path, vc, partition, maximum=True) for path, vc in told.items() if path != ROOT}
        parts = translate({path: one.gpus for path, one in quotas.items()}, gpus)
        most_gpus = maxima(_of(most, lambda one: one.gpus), gpus)
        most_mb = maxima(_of(most, lambda one: one.memory), memory_mb)
        most_vcores = maxima(_of(most, lambda one: one.vcores), vcores)
        for path, part in parts.items():
            self._limits[path, partition] = Limits(
                part.units, part.translated, most_gpus[path], most_mb[path], most_vcores[path]
            )
            quota, maximum = part.units, most_gpus[path]
            if quota is not None or maximum is not None:
                self._partitions.setdefault(path, []).append(partition)
            if quota is not None and maximum is not None and quota > maximum:
                self._warn(
                    path,
                    f"{_quota(told[path], partition, quota)} is over its maximum, {maximum}: it never has all of it",
                )
        self._check_sums(partition, gpus, told)

    def _capacity(self, path: str, vc: VirtualCluster, partition: str, *, maximum: bool) -> Capacity:
        texts = [one.maximum if maximum else one.capacity for one in vc.capacities if one.partition == partition]
        if texts and texts[0]:
            try:
                return read_maximum(texts[0]) if maximum else read_capacity(texts[0])
            except CapacityError as problem:
                key = key_of(path, partition, "maximum-capacity" if maximum else "capacity")
                self._warn(path, f"{key} {problem}; it counts as not configured")
                return NOTHING
        gpus = vc.maximum_gpus if maximum else vc.quota_gpus
        return NOTHING if partition or gpus is None else Capacity(Amount(Measure.ABSOLUTE, gpus))

    def _check_sums(self, partition: str, gpus: int, told: dict[str, VirtualCluster]) -> None:
        """Warn where the quotas below a queue are more than it has."""
        below: dict[str, dict[str, int]] = {}
        for path in told:
            above = ROOT if path != ROOT and parent_of(path) is None else parent_of(path)
            quota = self.limits(path, partition).quota_gpus
            if above is not None and quota:
                below.setdefault(above, {})[path] = quota
        for above, quotas in below.items():
            has = gpus if above == ROOT else self.limits(above, partition).quota_gpus
            total = sum(quotas.values())
            if has is None or total <= has:
                continue
            said = f"the quotas of the queues below it are {total} GPUs{_of_partition(partition)} ({_largest(quotas)}),"
            if above == ROOT:
                self._oversubscribed.setdefault(above, []).append(f"{said} and there were never more than {has}")
            else:
                self._warn(above, f"{said} its own is {has}")

    def _warn(self, path: str, sentence: str) -> None:
        self._warnings.setdefault(path, []).append(sentence)


@lru_cache(maxsize=READ_MAX)
def _read(text: str) -> Capacity:
    return read_capacity(text)


@lru_cache(maxsize=READ_MAX)
def _is_limit(maximum: str) -> bool:
    """Tell whether a maximum limits anything: all of the parent in percent does not."""
    try:
        capacity = read_capacity(maximum)
    except CapacityError:
        return False
    named = (capacity.gpus, capacity.memory, capacity.vcores)
    return any(one is not None and (one.measure is not Measure.PERCENT or one.value < ALL_PERCENT) for one in named)


def _says_a_limit(record: VirtualClusterRecord) -> bool:
    vc = record.virtual_cluster
    if vc is None:
        return False
    if vc.maximum_gpus is not None or any(one.maximum and _is_limit(one.maximum) for one in vc.capacities):
        return True
    return any(name == USER_SETTING for name, _ in vc.settings)


def _of(capacities: dict[str, Capacity], pick: Callable[[Capacity], Amount | None]) -> dict[str, Amount | None]:
    return {path: pick(one) for path, one in capacities.items()}


def _quota(vc: VirtualCluster, partition: str, quota: int) -> str:
    """Say what a quota is and by which key."""
    text = next((one.capacity for one in vc.capacities if one.partition == partition and one.capacity), "")
    said = f"quota {quota} GPUs{_of_partition(partition)}"
    return f'{said} ({key_of(vc.path, partition, "capacity")} "{text}")' if text else said


def _largest(quotas: dict[str, int]) -> str:
    ordered = sorted(quotas, key=lambda path: (-quotas[path], path))
    more = f" and {len(ordered) - LISTED_MAX} more" if len(ordered) > LISTED_MAX else ""
    return ", ".join(f"{path} {quotas[path]}" for path in ordered[:LISTED_MAX]) + more


def _of_partition(partition: str) -> str:
    return f' of partition "{partition}"' if partition else ""
