"""A live container."""

import msgspec

from yarn_gpu_sched.model.ask import RequestKey
from yarn_gpu_sched.model.resource import Resource


class Container(msgspec.Struct, frozen=True, gc=False):
    """Committed, and not yet confirmed as gone by its server.

    ``gpu_indices`` are ascending and as many as ``resource.gpus``. ``ending``: the resource manager has ended it, its server
    has not yet confirmed it, so what it holds is still in use (law 1). ``assumed``: nobody told which GPUs it has, as of what stock
    placement made; these were free when it was seen, and it gives them up to a container that is told to have them.
    """

    container_id: str
    job_id: str
    attempt: int
    server_id: str
    resource: Resource
    gpu_indices: tuple[int, ...] = ()
    application_master: bool = False
    key: RequestKey = RequestKey()
    ending: bool = False
    assumed: bool = False
