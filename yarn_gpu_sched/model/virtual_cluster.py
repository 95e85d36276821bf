"""A tenant with a GPU quota: one YARN leaf queue, or a queue above others."""

import msgspec


class QueueCapacity(msgspec.Struct, frozen=True, gc=False):
    """What a queue has of a partition, as configured (see `yarn_gpu_sched.model.capacity_text`); empty: not configured."""

    partition: str = ""
    capacity: str = ""
    maximum: str = ""


class VirtualCluster(msgspec.Struct, frozen=True, gc=False):
    """A queue as configured. ``None``: no quota or no limit was configured in GPUs.

    ``debounce``: what a job without a gang tag asks with GPUs is a gang as soon as its asks have not changed for a while.
    ``parent``: it holds queues, not jobs. ``capacities`` count before ``quota_gpus`` and ``maximum_gpus``, which are of the default
    partition. ``settings``: its own settings for this scheduler, by name.
    """

    path: str
    quota_gpus: int | None = None
    maximum_gpus: int | None = None
    running: bool = True
    debounce: bool = False
    parent: bool = False
    capacities: tuple[QueueCapacity, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
