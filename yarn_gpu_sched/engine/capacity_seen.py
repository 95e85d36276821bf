"""The largest capacity seen, and what can never run on it (law 10)."""

from typing import NamedTuple

from yarn_gpu_sched.engine.want import Demand
from yarn_gpu_sched.model.gang_tag import GangTag
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.placement import Kind

ANSWERS_MAX = 4_096

Make = tuple[int, int, int]
"""A server's GPUs, memory in MB and vcores."""


Asked = list[Demand | GangTag]
"""What a job has to have at once, each by itself."""


class Grounds(NamedTuple):
    """On what a job was refused: what it wants, what it says, how often capacity had grown, how often limits had changed."""

    asked: Asked
    job: Job
    growths: int
    changes: int


class CapacitySeen:
    """For each partition, the most servers of each make that were there at once, whatever their state.

    A server whose capacity changed counts with both: what is seen never shrinks while the cluster stays the same. ``peak``: the
    most GPUs, memory in MB and vcores of all servers that were there at once, each for itself. ``lending`` are the partitions that
    were ever seen to lend to the default one. ``growths`` counts how often there was more, or more was lent, than ever before.
    """

    def __init__(self) -> None:
        self.now: dict[str, dict[Make, int]] = {}
        self.most: dict[str, dict[Make, int]] = {}
        self.peak: dict[str, Make] = {}
        self.lending: dict[str, None] = {}
        self.growths = 0
        self._answers: dict[Demand | GangTag, str] = {}

    def add(self, server: Server) -> bool:
        """See a server come; tell whether the partition has more of anything than ever."""
        make = _make(server)
        if server.partition_shared and server.partition not in self.lending:
            self.lending[server.partition] = None
            self._grow()
        now = self.now.setdefault(server.partition, {})
        now[make] = now.get(make, 0) + 1
        most = self.most.setdefault(server.partition, {})
        if now[make] > most.get(make, 0):
            most[make] = now[make]
            self._grow()
        peak = self.total(server.partition)
        self.peak[server.partition] = tuple(map(max, peak, _sum(now)))  # type: ignore[assignment] # three of them, as before
        return self.peak[server.partition] != peak

    def _grow(self) -> None:
        self.growths += 1
        self._answers.clear()

    def remove(self, server: Server) -> None:
        """See a server go."""
        self.now[server.partition][_make(server)] -= 1

    def forget_all(self) -> None:
        """Another cluster: nothing was seen of it."""
        self.now.clear()
        self.most.clear()
        self.peak.clear()
        self.lending.clear()
        self._answers.clear()

    def forget_present(self) -> None:
        """No server is there at present."""
        self.now.clear()

    def total(self, partition: str) -> Make:
        """Give the most GPUs, memory in MB and vcores that a partition ever had at once, each for itself."""
        return self.peak.get(partition, (0, 0, 0))

    def has_gpus(self) -> bool:
        """Tell whether a server with GPUs was ever there."""
        return any(make[0] for makes in self.most.values() for make in makes)

    def never_fits(self, asked: Demand | GangTag) -> str:
        """Say in one sentence why what is asked could not be met by all that was seen; empty if it might.

        Of a tag alone, whether any partition would hold a gang of that shape. Containers without GPUs may go anywhere, so servers
        of every kind count for them.
        """
        answer = self._answers.get(asked)
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            answer = self._demand(asked) if isinstance(asked, Demand) else self._tag(asked)
            self._answers[asked] = answer
        return answer

    def _demand(self, demand: Demand) -> str:
        names = [demand.partition] if demand.partition else ["", *sorted(self.lending)]
        answers = [_too_large(demand.kinds, makes) for name in names if (makes := self.most.get(name))]
        if not answers:
            name = f'partition "{demand.partition}"' if demand.partition else "the default partition"
            return f"asks {name}, which has no servers" if self.most else _NO_SERVERS
        return "" if "" in answers else answers[0]

    def _tag(self, tag: GangTag) -> str:
        if tag.gpus_each is None:
            return ""
        kinds = (Kind(tag.gpu_containers, tag.gpus_each, 0, 0),)
        answers = [_too_large(kinds, makes) for _, makes in sorted(self.most.items())] or [_NO_SERVERS]
        return "" if "" in answers else answers[0]


_NO_SERVERS = "asks containers, and the cluster has no servers"


def _sum(makes: dict[Make, int]) -> Make:
    """Add up servers."""
    items = makes.items()
    gpus, memory_mb, vcores = (sum(make[place] * count for make, count in items) for place in range(3))
    return gpus, memory_mb, vcores


def _make(server: Server) -> Make:
    return (server.capacity.gpus, server.capacity.memory_mb, server.capacity.vcores)


def _too_large(kinds: tuple[Kind, ...], makes: dict[Make, int]) -> str:
    for kind in kinds:
        sentence = _container_too_large(kind, makes)
        if sentence:
            return sentence
    asked = sum(kind.containers * kind.gpus for kind in kinds)
    total = sum(make[0] * count for make, count in makes.items())
    if asked > total:
        return f"asks {asked} GPUs at once, all servers together have {total}"
    for kind in kinds:
        held = sum(_room(make, kind) * count for make, count in makes.items())
        if kind.containers > held:
            return f"asks {kind.containers} containers {_size(kind)} at once, all servers together hold {held}"
    return ""


def _container_too_large(kind: Kind, makes: dict[Make, int]) -> str:
    if any(_room(make, kind) for make in makes):
        return ""
    asks = (kind.gpus, kind.memory_mb, kind.vcores)
    for place, unit in ((0, "GPUs"), (1, "MB of memory"), (2, "vcores")):
        most = max(make[place] for make in makes)
        if asks[place] > most:
            return f"asks {asks[place]} {unit} a container, the largest server has {most}"
    return f"asks containers {_size(kind)}, and no server has all of that"


def _room(make: Make, kind: Kind) -> int:
    return min(
        (has // asks for has, asks in zip(make, (kind.gpus, kind.memory_mb, kind.vcores), strict=True) if asks),
        default=kind.containers,
    )


def _size(kind: Kind) -> str:
    sizes = [(kind.gpus, "GPUs"), (kind.memory_mb, "MB of memory"), (kind.vcores, "vcores")]
    return "of " + " and ".join(f"{amount} {unit}" for amount, unit in sizes if amount)
