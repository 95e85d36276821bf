"""From messages to values of the model, held to every bound that the protocol states.

Written for speed: each container and each ask of a cluster passes through here. Amounts and keys
repeat endlessly, so they are built once and shared.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from yarn_gpu_sched.model.ask import Ask, PlaceAsk, RequestKey
from yarn_gpu_sched.model.container import Container
from yarn_gpu_sched.model.job import Job
from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.model.virtual_cluster import QueueCapacity, VirtualCluster
from yarn_gpu_sched.protocol import bounds
from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.bounds import (
    checked_count,
    checked_id,
    checked_path,
    checked_queue,
    checked_text,
    one_line,
)
from yarn_gpu_sched.protocol.enums import SERVER_STATES, UNTAGGED_JOBS, known
from yarn_gpu_sched.protocol.v1 import (
    ask_pb2,
    container_pb2,
    job_pb2,
    resource_pb2,
    server_pb2,
    virtual_cluster_pb2,
)

_SHARED_VALUES_MAX = 4_096
_NANOS_PER_SECOND = 1_000_000_000
_YEAR_10000_S = 253_402_300_800

request_key = lru_cache(maxsize=_SHARED_VALUES_MAX)(RequestKey)


@lru_cache(maxsize=_SHARED_VALUES_MAX)
def _resource(memory_mb: int, vcores: int, gpus: int) -> Resource:
    return Resource(
        checked_count("memory_mb", memory_mb, 0, bounds.MEMORY_MB_MAX),
        checked_count("vcores", vcores, 0, bounds.VCORES_MAX),
        checked_count("gpus", gpus, 0, bounds.GPUS_MAX),
    )


def resource_value(field: str, message: resource_pb2.Resource) -> Resource:
    """Convert an amount; ``field`` is what the message that holds it calls it."""
    try:
        return _resource(message.memory_mb, message.vcores, message.gpus)
    except BadField as bad:
        raise bad.within(field) from None


def server_value(message: server_pb2.Server) -> Server:
    """Convert a server."""
    return Server(
        checked_id("server_id", message.server_id),
        checked_text("host", message.host),
        checked_path("rack", message.rack),
        resource_value("capacity", message.capacity),
        checked_text("partition", message.partition),
        known("state", message.state, SERVER_STATES),
        message.partition_shared,
    )


def virtual_cluster_value(message: virtual_cluster_pb2.VirtualCluster) -> VirtualCluster:
    """Convert a virtual cluster; an absent quota or maximum is None."""
    if len(message.capacities) > bounds.PARTITIONS_MAX:
        raise BadField("capacities", f"{len(message.capacities)} partitions", f"at most {bounds.PARTITIONS_MAX}")
    if len(message.settings) > bounds.QUEUE_SETTINGS_MAX:
        raise BadField("settings", f"{len(message.settings)} settings", f"at most {bounds.QUEUE_SETTINGS_MAX}")
    return VirtualCluster(
        checked_queue("path", message.path),
        message.quota_gpus if message.HasField("quota_gpus") else None,
        message.maximum_gpus if message.HasField("maximum_gpus") else None,
        message.running,
        known("untagged_jobs", message.untagged_jobs, UNTAGGED_JOBS),
        message.parent,
        tuple(_capacity(one) for one in sorted(message.capacities, key=lambda one: one.partition)),
        tuple(
            (checked_id("settings", name), _words(f"settings[{name}]", value))
            for name, value in sorted(message.settings.items())
        ),
    )


def _capacity(message: virtual_cluster_pb2.QueueCapacity) -> QueueCapacity:
    return QueueCapacity(
        checked_text("partition", message.partition),
        _words("capacity", message.capacity),
        _words("maximum_capacity", message.maximum_capacity),
    )


def _words(field: str, value: str) -> str:
    return checked_text(field, value, bounds.TEXT_CHARACTERS_MAX)


def _time_s(message: job_pb2.Job, field: Literal["submit_time", "expire_time"]) -> float | None:
    if not message.HasField(field):
        return None
    time = getattr(message, field)
    checked_count(f"{field}.nanos", time.nanos, 0, _NANOS_PER_SECOND - 1)
    checked_count(f"{field}.seconds", time.seconds, -_YEAR_10000_S, _YEAR_10000_S)
    return float((time.seconds * _NANOS_PER_SECOND + time.nanos) / _NANOS_PER_SECOND)


def job_value(message: job_pb2.Job) -> Job:
    """Convert a job. The name, which anybody chose, is cut; nothing else is."""
    if len(message.tags) > bounds.TAGS_MAX:
        raise BadField("tags", f"{len(message.tags)} tags", f"at most {bounds.TAGS_MAX}")
    return Job(
        checked_id("job_id", message.job_id),
        checked_queue("virtual_cluster", message.virtual_cluster),
        checked_text("user", message.user),
        message.name[: bounds.PATH_CHARACTERS_MAX],
        tuple(checked_text("tags", tag) for tag in message.tags),
        _time_s(message, "submit_time") or 0.0,
        message.attempt,
        message.active,
        message.recovered,
        message.unmanaged,
        message.priority,
        message.keeps_containers,
        _time_s(message, "expire_time"),
        message.one_attempt,
    )


def _place_asks(messages: Sequence[ask_pb2.PlaceAsk]) -> tuple[PlaceAsk, ...]:
    if len(messages) > bounds.PLACES_MAX:
        raise BadField("places", f"{len(messages)} places", f"at most {bounds.PLACES_MAX}")
    return tuple(
        PlaceAsk(
            checked_path("places.place", message.place),
            checked_count("places.count", message.count, 1, bounds.CONTAINERS_ASKED_MAX),
        )
        for message in messages
    )


def blacklist_value(places: Sequence[str]) -> tuple[str, ...]:
    """Convert hosts and racks that an application wants nothing of."""
    if len(places) > bounds.PLACES_MAX:
        raise BadField("blacklist", f"{len(places)} places", f"at most {bounds.PLACES_MAX}")
    return tuple(checked_path("blacklist", place) for place in places)


def ask_value(message: ask_pb2.Ask) -> Ask:
    """Convert an ask."""
    key = message.key
    return Ask(
        request_key(key.priority, key.allocation_request_id),
        checked_count("count", message.count, 0, bounds.CONTAINERS_ASKED_MAX),
        resource_value("resource", message.resource),
        message.application_master,
        checked_text("partition", message.partition),
        _place_asks(message.places) if message.places else (),
        _strict(message),
    )


def _strict(message: ask_pb2.Ask) -> bool:
    if message.strict and not message.places:
        raise BadField("strict", "true", "false where no place is named")
    return message.strict


def asks_value(messages: Iterable[ask_pb2.Ask]) -> tuple[Ask, ...]:
    """Convert all asks of an attempt; a withdrawn one (count 0) is left out, a key comes once."""
    asks: dict[RequestKey, Ask] = {}
    for index, message in enumerate(messages):
        try:
            ask = ask_value(message)
        except BadField as bad:
            raise bad.within(f"asks[{index}]") from None
        if ask.key in asks:
            key = f"priority {ask.key.priority}, id {ask.key.allocation_request_id}"
            raise BadField(f"asks[{index}].key", key, "another key than those of the asks before")
        asks[ask.key] = ask
    return tuple(ask for ask in asks.values() if ask.count)


def _gpu_indices(message: container_pb2.Container, gpus: int) -> tuple[int, ...]:
    indices = tuple(message.gpu_indices)
    if not indices:
        return indices
    if len(indices) != gpus:
        raise BadField("gpu_indices", list(indices), f"as many as resource.gpus ({gpus}), or none")
    checked_count("gpu_indices", indices[-1], 0, bounds.GPUS_MAX - 1)
    if any(one >= next_one for one, next_one in pairwise(indices)):
        raise BadField("gpu_indices", list(indices), "ascending, each once")
    return indices


def container_value(message: container_pb2.Container) -> Container:
    """Convert a live container. No indices although it holds GPUs: the engine picks some."""
    resource = resource_value("resource", message.resource)
    key = message.key
    return Container(
        checked_id("container_id", message.container_id),
        checked_id("job_id", message.job_id),
        checked_count("attempt", message.attempt, 1, (1 << 32) - 1),
        checked_id("server_id", message.server_id),
        resource,
        _gpu_indices(message, resource.gpus),
        message.application_master,
        request_key(key.priority, key.allocation_request_id),
        message.ending,
    )


def diagnostics_value(text: str) -> str:
    """Cut what was said from outside to 4,096 characters on one line."""
    return one_line(text)
