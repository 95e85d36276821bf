"""Who may call what: one row for each RPC that is served. docs/security.md shows the same table; a test compares them.

A caller on this machine, over loopback or a Unix socket without TLS, may call everything. An RPC without a row is refused to
everybody.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from yarn_gpu_sched.identity import Role


class Rule(msgspec.Struct, frozen=True):
    """Who may call an RPC, and what that does; ``own``: what a role is confined to, checked where the request is understood.

    ``changes``: it changes something, so that it stands in the audit log whether it is done or refused.
    """

    meaning: str
    roles: frozenset[Role]
    changes: bool = False
    own: str = ""


_EVERYBODY = frozenset(Role)
_READERS = frozenset({Role.OPERATOR, Role.READER, Role.SUBMITTER})
_OPERATORS = frozenset({Role.OPERATOR})


def _service(name: str, **rules: Rule) -> dict[str, Rule]:
    return {f"/{name}/{rpc}": rule for rpc, rule in rules.items()}


PERMISSIONS: Mapping[str, Rule] = MappingProxyType(
    {
        **_service(
            "yarn_gpu_sched.v1.ResourceManagerLinkService",
            Connect=Rule("be the cluster's resource manager", frozenset({Role.RESOURCE_MANAGER}), changes=True),
        ),
        **_service(
            "yarn_gpu_sched.v1.MonitorService",
            Report=Rule("speak for a server", frozenset({Role.MONITOR}), changes=True, own="the server of its name"),
        ),
        **_service(
            "yarn_gpu_sched.v1.JobsService",
            ListJobs=Rule("list jobs", _READERS),
            GetJob=Rule("show a job", _READERS),
            GetWaitingReason=Rule("ask why a job waits", _READERS),
            ListDelays=Rule("ask how long jobs waited", _READERS),
            WatchJobs=Rule("watch jobs", _READERS),
        ),
        **_service(
            "yarn_gpu_sched.v1.ClusterService",
            GetCluster=Rule("show the cluster", _READERS),
            ListServers=Rule("list servers", _READERS),
            ListVirtualClusters=Rule("list virtual clusters", _READERS),
        ),
        **_service(
            "yarn_gpu_sched.v1.PreemptionService",
            GetPreemption=Rule("show preemption", _READERS),
            SetPreemptionMode=Rule("switch preemption", _OPERATORS, changes=True),
            PreviewPreemption=Rule("ask whom a job would have stopped", _READERS),
            ReportCheckpoint=Rule(
                "report a checkpoint",
                _OPERATORS | {Role.SUBMITTER},
                changes=True,
                own="a submitter: jobs of the user of its name",
            ),
        ),
        **_service(
            "yarn_gpu_sched.v1.GpuService",
            ListGpus=Rule("list GPUs", _READERS),
            ListIdle=Rule("list idle GPUs", _READERS),
            Mark=Rule("drain, undrain, quarantine or acknowledge", _OPERATORS, changes=True),
        ),
        **_service(
            "grpc.health.v1.Health",
            Check=Rule("ask whether the service serves", _EVERYBODY),
            Watch=Rule("watch whether the service serves", _EVERYBODY),
            List=Rule("list what serves", _EVERYBODY),
        ),
        **_service(
            "grpc.reflection.v1alpha.ServerReflection",
            ServerReflectionInfo=Rule("read the protocol", _READERS),
        ),
    }
)
