"""The shapes of what the ResourceManager and NodeManagers tell at their web addresses, as far as it is looked at."""

from __future__ import annotations

import msgspec

GPU = "yarn.io/gpu"


class Kind(msgspec.Struct, frozen=True):
    """How much of a kind of resource."""

    name: str
    value: int = 0


class Kinds(msgspec.Struct, frozen=True, rename="camel"):
    """All kinds."""

    resource_information: tuple[Kind, ...] = ()


class Amount(msgspec.Struct, frozen=True, rename="camel"):
    """Resources in Hadoop's words: memory in MiB, vcores, and the rest by name."""

    memory: int = 0
    v_cores: int = 0
    resource_informations: Kinds | None = None

    @property
    def gpus(self) -> int:
        """GPUs among them."""
        kinds = self.resource_informations.resource_information if self.resource_informations else ()
        return sum(kind.value for kind in kinds if kind.name == GPU)


class ResourceManager(msgspec.Struct, frozen=True, rename="camel"):
    """Who the ResourceManager is; ``started_on`` in milliseconds since 1970 by its own clock."""

    ha_state: str
    resource_manager_version: str
    started_on: int = 0
    state: str = ""


class ClusterPage(msgspec.Struct, frozen=True, rename="camel"):
    """`/ws/v1/cluster/info`."""

    cluster_info: ResourceManager


class Node(msgspec.Struct, frozen=True, rename="camel"):
    """A server as the ResourceManager knows it."""

    id: str
    node_host_name: str
    state: str
    rack: str = ""
    node_http_address: str = msgspec.field(default="", name="nodeHTTPAddress")
    version: str = ""
    total_resource: Amount = Amount()
    used_resource: Amount = Amount()

    @property
    def host(self) -> str:
        """Its host in lower case, as the service names it."""
        return self.node_host_name.lower()

    @property
    def gpus(self) -> int:
        """GPUs that the ResourceManager counts on it."""
        return self.total_resource.gpus


class Nodes(msgspec.Struct, frozen=True):
    """A list of them."""

    node: tuple[Node, ...] = ()


class NodesPage(msgspec.Struct, frozen=True):
    """`/ws/v1/cluster/nodes`; without servers the list is null."""

    nodes: Nodes | None = None


class Queues(msgspec.Struct, frozen=True):
    """Queues below another."""

    queue: tuple[Queue, ...] = ()


class Queue(msgspec.Struct, frozen=True, rename="camel"):
    """A queue; what only a leaf has is empty in one above others."""

    queue_name: str = ""
    queue_path: str = ""
    state: str = "RUNNING"
    queues: Queues | None = None
    num_applications: int = 0
    num_active_applications: int = 0
    num_pending_applications: int = 0
    max_applications: int = 0
    max_applications_per_user: int = 0
    max_parallel_apps: int = 2**31 - 1
    user_limit_factor: float = -1.0
    configured_max_am_resource_limit: float = msgspec.field(default=1.0, name="configuredMaxAMResourceLimit")
    am_resource_limit: Amount | None = msgspec.field(default=None, name="AMResourceLimit")
    used_am_resource: Amount | None = msgspec.field(default=None, name="usedAMResource")
    max_effective_capacity: Amount | None = None

    def leaves(self) -> list[Queue]:
        """Return the queues that hold jobs, this one or those below it."""
        below = self.queues.queue if self.queues else ()
        return [leaf for queue in below for leaf in queue.leaves()] if below else [self]


class Scheduler(Queue, frozen=True, rename="camel"):
    """The root queue, and which kind of scheduler it is."""

    type: str = ""


class SchedulerHolder(msgspec.Struct, frozen=True, rename="camel"):
    """What holds it."""

    scheduler_info: Scheduler


class SchedulerPage(msgspec.Struct, frozen=True):
    """`/ws/v1/cluster/scheduler`."""

    scheduler: SchedulerHolder


class Property(msgspec.Struct, frozen=True):
    """A key of a configuration."""

    key: str
    value: str | None = None


class ConfPage(msgspec.Struct, frozen=True):
    """`/conf`."""

    properties: tuple[Property, ...]

    def values(self) -> dict[str, str]:
        """Return values by key."""
        return {one.key: one.value or "" for one in self.properties}


class Counters(msgspec.Struct, frozen=True, rename="pascal"):
    """Of the shim, see docs/shim.md."""

    connected: int = 0
    sessions: int = 0
    link_losses: int = 0
    dropped: int = 0


class JmxPage(msgspec.Struct, frozen=True):
    """`/jmx`: no bean, no shim."""

    beans: tuple[Counters, ...] = ()


class Discovered(msgspec.Struct, frozen=True):
    """GPUs that a NodeManager's plugin found: 3.4 calls the list ``gpus``, 3.5 ``gpu``."""

    gpus: tuple[msgspec.Raw, ...] | None = None
    gpu: tuple[msgspec.Raw, ...] | None = None


class GpuPage(msgspec.Struct, frozen=True, rename="camel"):
    """`/ws/v1/node/resources/yarn.io%2Fgpu`: empty without the plugin."""

    gpu_device_information: Discovered | None = None
