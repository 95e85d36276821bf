"""Where things lie in a cluster's folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

_OURS = ("bin", "conf", "data", "home", "lib", "logs", "servers", "tmp")
_OUR_FILES = (
    "cluster.env",
    "cluster.json",
    "control",
    "distributedshell.jar",
    "hosts",
    "mapreduce-examples.jar",
    "topology",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of one cluster.

    bin/                  the `yarn` and `hdfs` commands for this cluster
    conf/                 configuration of ResourceManager, HDFS and clients
    data/                 HDFS, the ResourceManager's state, and without HDFS the file system
    lib/                  the shim's jar, and others that the ResourceManager loads, as they were at its start
    logs/                 what the daemons print, NAME.log
    servers/NAME/         a NodeManager's configuration, containers and recovery state
    cluster.json          what was asked for, the ports and the supervisor
    distributedshell.jar, mapreduce-examples.jar  the stock example applications, for `yarn jar`
    """

    root: Path

    def __truediv__(self, name: str) -> Path:
        return self.root / name

    @property
    def conf(self) -> Path:
        """Configuration of ResourceManager, HDFS and clients."""
        return self.root / "conf"

    @property
    def record(self) -> Path:
        """What is known of the cluster, as JSON."""
        return self.root / "cluster.json"

    def server(self, name: str) -> Path:
        """Return the folder of one NodeManager."""
        return self.root / "servers" / name

    def log(self, name: str) -> Path:
        """Return the file to which a daemon prints."""
        return self.root / "logs" / f"{name}.log"

    def is_ours(self) -> bool:
        """Whether the folder may be used: it is new, empty, or was made by a cluster."""
        if not self.root.exists():
            return True
        return self.root.is_dir() and (self.record.is_file() or not any(self.root.iterdir()))

    def make(self) -> None:
        """Make the folder as new; what an earlier cluster left there goes."""
        self.clear()
        for name in _OURS:
            (self.root / name).mkdir(parents=True)
        self.root.chmod(0o700)  # the control socket is for this user alone

    def clear(self) -> None:
        """Remove what a cluster made."""
        for name in _OURS:
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in _OUR_FILES:
            (self.root / name).unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove what a cluster made, and the folder itself if nothing else is in it."""
        self.clear()
        if self.root.is_dir() and not any(self.root.iterdir()):
            self.root.rmdir()
