"""Who holds the GPUs that a waiting job lacks, the largest few, with what of it is borrowed."""

from collections import Counter
from collections.abc import Sequence

from yarn_gpu_sched.engine.borrowing import Charged, by_queue, charge, holdings
from yarn_gpu_sched.engine.core import Core
from yarn_gpu_sched.engine.phrases import NAMED_MAX, counted
from yarn_gpu_sched.model.tag import shown


class Holders:
    """What is held now of some partitions."""

    def __init__(self, core: Core, partitions: Sequence[str]) -> None:
        self._core = core
        self._held = [one for one in holdings(core) if one.partition in partitions]
        self._by_queue = by_queue(self._held)

    def of_queue(self, path: str, partition: str, user: str | None = None) -> str:
        """Say which jobs hold the GPUs of a queue, of one user's alone if one is told; empty if nobody holds any."""
        quota = self._core.in_force.limits(path, partition).quota_gpus
        charged = charge(self._by_queue.get((path, partition), []), quota)
        if user is not None:
            charged = [one for one in charged if one.holding.record.job.user == user]
        if not charged:
            return ""
        largest = sorted(charged, key=lambda one: (-one.holding.gpus, one.holding.place))
        said = [_job(one) for one in largest[:NAMED_MAX]]
        rest = largest[NAMED_MAX:]
        if rest:
            said.append(f"{counted(len(rest), 'other job')} {sum(one.holding.gpus for one in rest)}")
        whose = f" that user {shown(user)} uses" if user else ""
        return f"of the GPUs of queue {path}{whose}: {', '.join(said)}"

    def of_partition(self) -> str:
        """Say which virtual clusters hold the GPUs in use; empty if nobody does."""
        used: Counter[str] = Counter()
        borrowed: Counter[str] = Counter()
        leaves = {(one.record.job.vc, one.partition): None for one in self._held}
        for vc, partition in leaves:
            quota = self._core.in_force.limits(vc, partition).quota_gpus
            for one in charge(self._by_queue[vc, partition], quota):
                if one.holding.record.job.vc == vc:
                    used[vc] += one.holding.gpus
                    borrowed[vc] += one.borrowed_gpus
        if not used:
            return ""
        largest = sorted(used, key=lambda vc: (-used[vc], vc))
        said = [_amount(vc, used[vc], borrowed[vc]) for vc in largest[:NAMED_MAX]]
        rest = largest[NAMED_MAX:]
        if rest:
            queues = counted(len(rest), "other queue")
            said.append(_amount(queues, sum(used[vc] for vc in rest), sum(borrowed[vc] for vc in rest)))
        return f"of the GPUs in use: {', '.join(said)}"


def _job(one: Charged) -> str:
    job, gpus = one.holding.record.job, one.holding.gpus
    who = f" of {shown(job.user)}" if job.user else ""
    return _amount(f"{shown(job.job_id)}{who}", gpus, one.borrowed_gpus)


def _amount(name: str, gpus: int, borrowed: int) -> str:
    if not borrowed:
        return f"{name} {gpus}"
    return f"{name} {gpus} (borrowed)" if borrowed == gpus else f"{name} {gpus} ({borrowed} borrowed)"
