"""A tenant with a GPU quota: one YARN leaf queue."""

import msgspec


class VirtualCluster(msgspec.Struct, frozen=True, gc=False):
    """A leaf queue. ``None``: no quota or no limit was configured in GPUs.

    ``debounce``: what a job without a gang tag asks with GPUs is a gang as soon as its asks have not changed for a while.
    """

    path: str
    quota_gpus: int | None = None
    maximum_gpus: int | None = None
    running: bool = True
    debounce: bool = False
