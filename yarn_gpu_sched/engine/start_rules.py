"""What of the queues' capacities makes a ResourceManager refuse to start (Hadoop 3.4: AbstractParentQueue, AbstractCSQueue).

A refresh is refused for the same, and then goes on with what was in force before, so a file may lie there for months that the next
start refuses. All rules but those on one queue alone hold in YARN's legacy queue mode, its default. At a start no server is known,
so one amount is over another if no resource type is less and at least one is more; a type that is not named counts as 0. Only what
is said in YARN's words is held against them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from yarn_gpu_sched.model.capacity_text import Capacity, CapacityError, Measure, read_capacity
from yarn_gpu_sched.model.shares import ALL_PERCENT, ROOT, parent_of
from yarn_gpu_sched.model.virtual_cluster import VirtualCluster

SUM_PRECISION_PERCENT = 0.05
LISTED_MAX = 5
LEGACY = "the next start of the ResourceManager refuses that, unless its legacy queue mode is off"
ALWAYS = "the next start of the ResourceManager refuses that"

Amounts = tuple[float, float, float]
"""GPUs, memory in MiB, vcores."""

_KINDS = {Measure.PERCENT: "in percent", Measure.WEIGHT: "as weights", Measure.ABSOLUTE: "absolute"}


class Said:
    """What a queue's configuration says of a partition; a text that cannot be read, or mixes kinds, is of no kind."""

    def __init__(self, partition: str, capacity: str, maximum: str) -> None:
        self.partition = partition
        self.capacity = capacity
        self.maximum = maximum
        self.kind, self.amounts = _read(capacity)
        self.maximum_kind, self.maximum_amounts = _read(maximum)

    @property
    def unclear(self) -> bool:
        """Whether it says something of no kind: nothing can be told of its siblings then."""
        return bool(self.capacity) and self.kind is None

    @property
    def counts(self) -> bool:
        """Whether it makes its queue one of its kind: a capacity of 0 does not, a weight of 0 does."""
        return self.kind is Measure.WEIGHT or (self.kind is not None and any(self.amounts))

    @property
    def percent(self) -> float:
        """Its share of what the parent has."""
        return self.amounts[0] if self.kind is Measure.PERCENT else 0.0


def refused_at_start(told: Mapping[str, VirtualCluster]) -> Iterator[tuple[str, str]]:
    """Say which queue's capacities a start would refuse, and why."""
    said = {
        path: {one.partition: Said(one.partition, one.capacity, one.maximum) for one in vc.capacities}
        for path, vc in told.items()
    }
    children: dict[str, list[str]] = defaultdict(list)
    for path in told:
        if path != ROOT:
            children[parent_of(path) or ROOT].append(path)
            for one in said[path].values():
                yield from ((path, sentence) for sentence in _alone(path, one))
    for above, below in children.items():
        yield from ((above, sentence) for sentence in _together(above, said.get(above, {}), below, said))


def key_of(path: str, partition: str, name: str) -> str:
    """Name a setting of a queue as its file does."""
    label = f"accessible-node-labels.{partition}." if partition else ""
    return f"yarn.scheduler.capacity.{path}.{label}{name}"


def _read(text: str) -> tuple[Measure | None, Amounts]:
    try:
        capacity = read_capacity(text) if text else Capacity()
    except CapacityError:
        return None, (0, 0, 0)
    named = [one for one in (capacity.gpus, capacity.memory, capacity.vcores) if one is not None]
    measures = {one.measure for one in named}
    if len(measures) != 1 or (text.strip().startswith("[") and measures != {Measure.ABSOLUTE}):
        return None, (0, 0, 0)
    gpus, memory, vcores = (
        0 if one is None else one.value for one in (capacity.gpus, capacity.memory, capacity.vcores)
    )
    return measures.pop(), (gpus, memory, vcores)


def _is_over(amounts: Amounts, others: Amounts) -> bool:
    pairs = list(zip(amounts, others, strict=True))
    return all(one >= other for one, other in pairs) and any(one > other for one, other in pairs)


def _alone(path: str, one: Said) -> Iterator[str]:
    """Hold a queue's capacity and maximum against each other."""
    capacity, maximum = key_of(path, one.partition, "capacity"), key_of(path, one.partition, "maximum-capacity")
    for key, text, kind, amounts in (
        (capacity, one.capacity, one.kind, one.amounts),
        (maximum, one.maximum, one.maximum_kind, one.maximum_amounts),
    ):
        if kind is Measure.PERCENT and amounts[0] > ALL_PERCENT:
            yield f'{key} "{text}" is over {ALL_PERCENT} percent; {ALWAYS}'
    alike = one.kind is one.maximum_kind and one.kind in (Measure.PERCENT, Measure.ABSOLUTE)
    if alike and any(one.maximum_amounts) and _is_over(one.amounts, one.maximum_amounts):
        yield f'{capacity} "{one.capacity}" is over its maximum-capacity "{one.maximum}"; {ALWAYS}'


def _together(
    above: str, own: Mapping[str, Said], below: list[str], said: Mapping[str, Mapping[str, Said]]
) -> Iterator[str]:
    """Hold the queues below one against each other and against what it has."""
    if any(one.unclear for path in below for one in said[path].values()):
        return
    kinds = {one.kind for path in below for one in said[path].values() if one.counts}
    if len(kinds) > 1:
        names = " and ".join(sorted(_KINDS[kind] for kind in kinds if kind is not None))
        told = f"the capacities of the queues below it are {names}"
        refused = "whether the next start of the ResourceManager refuses that depends on their order"
        yield f"{told}, one kind would be right; {LEGACY if Measure.WEIGHT in kinds else refused}"
        return
    own_kinds = {one.kind for one in own.values() if one.counts}
    if above != ROOT and kinds and own_kinds and (Measure.ABSOLUTE in kinds) != (Measure.ABSOLUTE in own_kinds):
        own_said = " and ".join(sorted(_KINDS[kind] for kind in own_kinds if kind is not None))
        below_said = _KINDS[next(iter(kinds)) or Measure.PERCENT]
        told = f"its capacity is {own_said} and those of the queues below it are {below_said}"
        yield f"{told}, where one is absolute all must be; {LEGACY}"
    for partition in {one.partition: None for path in below for one in said[path].values()}:
        ones = {path: said[path][partition] for path in below if partition in said[path]}
        mine = own.get(partition)
        if above == ROOT or mine is not None:
            yield from _sums(above, partition, mine, ones)


def _sums(above: str, partition: str, own: Said | None, below: Mapping[str, Said]) -> Iterator[str]:
    of = f' of partition "{partition}"' if partition else ""
    percent = sum(one.percent for one in below.values())
    in_percent = all(one.kind is Measure.PERCENT or not one.counts for one in below.values())
    if in_percent and percent > SUM_PRECISION_PERCENT and abs(percent - ALL_PERCENT) > SUM_PRECISION_PERCENT:
        each = _listed({path: f"{one.percent:g}" for path, one in below.items()})
        yield f"the capacities of the queues below it{of} are {percent:g} percent together ({each}), 100 would be right; {LEGACY}"
    if own is None:
        return
    absolute = [one.amounts for one in below.values() if one.kind is Measure.ABSOLUTE]
    total = (sum(one[0] for one in absolute), sum(one[1] for one in absolute), sum(one[2] for one in absolute))
    if own.kind is Measure.ABSOLUTE and any(own.amounts) and _is_over(total, own.amounts):
        key = key_of(above, partition, "capacity")
        yield f'{key} "{own.capacity}" is less than the queues below it have together, {_amounts(total)}; {LEGACY}'
    for path, one in below.items():
        if own.maximum_kind is one.maximum_kind is Measure.ABSOLUTE and _is_over(
            one.maximum_amounts, own.maximum_amounts
        ):
            key = key_of(path, partition, "maximum-capacity")
            yield f'{key} "{one.maximum}" is over the maximum-capacity of {above}, "{own.maximum}"; {ALWAYS}'


def _listed(names: Mapping[str, str]) -> str:
    said = [f"{path} {amount}" for path, amount in sorted(names.items())]
    more = f" and {len(said) - LISTED_MAX} more" if len(said) > LISTED_MAX else ""
    return ", ".join(said[:LISTED_MAX]) + more


def _amounts(total: Amounts) -> str:
    return f"memory={total[1]:.0f},vcores={total[2]:.0f},yarn.io/gpu={total[0]:.0f}"
