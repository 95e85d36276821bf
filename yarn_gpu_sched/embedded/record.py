"""What is known of a cluster after `up`, kept as `cluster.json` in its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from yarn_gpu_sched.embedded.control import SupervisorId
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.spec import ClusterSpec


@dataclass(frozen=True, slots=True)
class Record:
    """What was asked for, and what came of it."""

    spec: ClusterSpec
    ports: dict[str, int]
    supervisor: SupervisorId

    @property
    def cluster_id(self) -> str:
        """The name under which this cluster registers with the service, another one after each `up`."""
        return f"embedded-{self.supervisor.mark[:8]}"


def write(layout: Layout, record: Record) -> None:
    """Write the record by rename: it is there whole or not at all."""
    plain = {
        "spec": _plain(record.spec),
        "ports": record.ports,
        "supervisor": asdict(record.supervisor),
    }
    parts = layout.record.with_suffix(".part")
    parts.write_text(json.dumps(plain, indent=1))
    parts.rename(layout.record)


def read(layout: Layout) -> Record:
    """Read the record of the cluster in this folder.

    Raises ClusterError if there is none, or none that can be read.
    """
    try:
        found = json.loads(layout.record.read_text())
        return Record(_spec(found["spec"]), found["ports"], SupervisorId(**found["supervisor"]))
    except FileNotFoundError:
        raise ClusterError(f"no cluster in {layout.root}; `ygs cluster up` makes one") from None
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ClusterError(f"{layout.record} is not the record of a cluster: {error}") from error


def _plain(spec: ClusterSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__} | {
        "binding_dir": None if spec.binding_dir is None else str(spec.binding_dir.absolute()),
        "extra_classpath": [str(path.absolute()) for path in spec.extra_classpath],
        "monitor_settings": dict(spec.monitor_settings),
        "settings": dict(spec.settings),
        "changed": {name: list(each) for name, each in spec.changed.items()},
        "jvm_flags": {role: list(flags) for role, flags in spec.jvm_flags.items()},
    }


def _spec(plain: dict[str, Any]) -> ClusterSpec:
    binding_dir = plain["binding_dir"]
    return ClusterSpec(
        **plain
        | {
            "servers": tuple((count, gpus) for count, gpus in plain["servers"]),
            "binding_dir": None if binding_dir is None else Path(binding_dir),
            "extra_classpath": tuple(Path(path) for path in plain["extra_classpath"]),
            "changed": {name: (gpus, rack) for name, (gpus, rack) in plain["changed"].items()},
            "jvm_flags": {role: tuple(flags) for role, flags in plain["jvm_flags"].items()},
        }
    )
