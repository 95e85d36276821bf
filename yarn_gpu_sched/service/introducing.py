"""Who speaks here: versions, and the service's wall clock, for whoever compares them (`ygs doctor`)."""

import time

from yarn_gpu_sched import __version__
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.protocol.v1 import cluster_pb2
from yarn_gpu_sched.service.session import Session


def introduce(message: cluster_pb2.GetClusterResponse, session: Session | None) -> None:
    """Add the service's version and time, and what the resource manager calls itself that is registered."""
    message.service_version = __version__
    message.service_time.FromNanoseconds(time.time_ns())
    if session is not None:
        message.resource_manager_agent = one_line(session.registration.agent)
