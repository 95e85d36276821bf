"""Checks of queues: quotas, and the limits that YARN has beside the service's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from yarn_gpu_sched.doctor.finding import Finding, counted, fault, named, ok, warning
from yarn_gpu_sched.doctor.installation import Installation
from yarn_gpu_sched.doctor.pages import Queue

_KEY = "yarn.scheduler.capacity"
_REFRESH = "in capacity-scheduler.xml, then: yarn rmadmin -refreshQueues"
_NEARLY_FULL = 0.9
_NO_LIMIT = 2**31 - 1


def _leaves(installation: Installation) -> dict[str, Queue]:
    return {leaf.queue_path or leaf.queue_name: leaf for leaf in installation.scheduler.leaves()}


def quotas(installation: Installation) -> Iterator[Finding]:
    """Whether the service knows YARN's queues, and their quotas add up."""
    uses = {use.virtual_cluster.path: use for use in installation.virtual_clusters}
    leaves = _leaves(installation)
    unknown = sorted(leaves.keys() - uses.keys())
    if unknown:
        yield fault(
            f"the service does not know the queues {named(unknown)}",
            "see the check stream; it tells queues when it is up",
        )
    for path, use in uses.items():
        for sentence in use.warnings:
            yield warning(f"{path}: {sentence}", f"correct {_KEY}.{path}.… {_REFRESH}")
        if not use.virtual_cluster.running and not use.virtual_cluster.parent:
            yield warning(f"{path} is stopped: it takes no jobs", f"set {_KEY}.{path}.state to RUNNING {_REFRESH}")
    yield from _sums(installation)


def _sums(installation: Installation) -> Iterator[Finding]:
    """Add up what leaf queues are promised of each partition."""
    promised: dict[str, int] = defaultdict(int)
    translated = without = leaves = 0
    for use in installation.virtual_clusters:
        if use.virtual_cluster.parent:
            continue
        leaves += 1
        quota = {share.partition: share.quota_gpus for share in use.shares if share.HasField("quota_gpus")}
        translated += any(share.translated for share in use.shares)
        without += not quota
        for partition, gpus in quota.items():
            promised[partition] += gpus
    gpus = installation.told.cluster.capacity.gpus
    total = sum(promised.values())
    if total > gpus:
        yield warning(
            f"quotas promise {total} GPUs, the cluster has {gpus}",
            f"lower the yarn.io/gpu of capacities {_REFRESH}; or bring back servers that are away",
        )
    kinds = f"{translated} in percent or as weights, {without} without one"
    yield ok(f"{counted(leaves, 'queue')} with {total} of {gpus} GPUs promised; {kinds}")


def am_limit(installation: Installation) -> Iterator[Finding]:
    """Whether YARN's own limit on masters keeps applications ACCEPTED (C29)."""
    low = 0
    leaves = _leaves(installation)
    for path, leaf in leaves.items():
        share, limit, used = leaf.configured_max_am_resource_limit, leaf.am_resource_limit, leaf.used_am_resource
        if share >= 1 or limit is None:
            continue
        low += 1
        has = f"masters may have {limit.memory} MiB and {limit.v_cores} vcores, {share:.3g} of the queue"
        do = f"set {_KEY}.maximum-am-resource-percent, or that of {_KEY}.{path}, to 1 {_REFRESH}"
        if leaf.num_pending_applications:
            uses = f"they use {used.memory} MiB" if used else "nobody says what they use"
            yield fault(
                f"{path}: {counted(leaf.num_pending_applications, 'application')} kept ACCEPTED: {has}; {uses}", do
            )
        else:
            yield warning(f"{path}: {has}; what is beyond stays ACCEPTED for ever", do)
    if not low:
        yield ok(f"maximum-am-resource-percent is 1 in {counted(len(leaves), 'queue')}: the service limits masters")


def applications(installation: Installation) -> Iterator[Finding]:
    """Whether a queue refuses or holds back applications for their number."""
    leaves = _leaves(installation)
    for path, leaf in leaves.items():
        count, most = leaf.num_applications, leaf.max_applications
        do = f"set {_KEY}.{path}.maximum-applications {_REFRESH}"
        if count >= most:
            yield fault(f"{path}: {counted(count, 'application')} of at most {most}: further ones are refused", do)
        elif count >= _NEARLY_FULL * most:
            yield warning(f"{path}: {counted(count, 'application')} of at most {most}", do)
        # Those are neither active nor what Hadoop calls pending.
        held_back = count - leaf.num_active_applications - leaf.num_pending_applications
        if held_back > 0:
            most_at_once = (
                str(leaf.max_parallel_apps) if leaf.max_parallel_apps < _NO_LIMIT else "as many as a queue above lets"
            )
            yield warning(
                f"{path}: {counted(held_back, 'application')} held back: at most {most_at_once} run at once",
                f"set {_KEY}.{path}.max-parallel-apps, or that of a queue above or of users, {_REFRESH}",
            )
    least = min((leaf.max_applications for leaf in leaves.values()), default=0)
    yield ok(
        f"{counted(sum(leaf.num_applications for leaf in leaves.values()), 'application')}; a queue takes {least} or more"
    )


def user_limits(installation: Installation) -> Iterator[Finding]:
    """Whether YARN holds a single user within the quota, however idle the cluster is."""
    leaves = _leaves(installation)
    bound = {path: leaf.user_limit_factor for path, leaf in leaves.items() if leaf.user_limit_factor >= 0}
    for path, factor in bound.items():
        yield warning(
            f"{path}: a user may have {factor:g} times the queue's capacity, however idle the cluster is",
            f"set {_KEY}.{path}.user-limit-factor to -1 {_REFRESH} (ygs.max-gpus-per-user limits users)",
        )
    if not bound:
        yield ok(f"user-limit-factor is -1 in {counted(len(leaves), 'queue')}")


def largest_asks(installation: Installation) -> Iterator[Finding]:
    """Whether YARN cuts or refuses containers that a server would hold."""
    conf = installation.conf
    kinds: Mapping[str, tuple[str, str, int]] = {
        "yarn.scheduler.maximum-allocation-mb": (
            "8192",
            "MiB of memory",
            max((node.total_resource.memory for node in installation.nodes), default=0),
        ),
        "yarn.scheduler.maximum-allocation-vcores": (
            "4",
            "vcores",
            max((node.total_resource.v_cores for node in installation.nodes), default=0),
        ),
    }
    for key, (default, unit, largest) in kinds.items():
        text = conf.get(key, default)
        if text.isdecimal() and int(text) < largest:
            yield warning(
                f"{key} is {text}: no container gets more, the largest server has {largest} {unit}",
                f"set it to {largest} or more in yarn-site.xml and restart the ResourceManager",
            )
        else:
            yield ok(f"a container may ask for {text} {unit}, the largest server has {largest}")
