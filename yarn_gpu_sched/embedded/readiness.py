"""Read the daemons' own pages, and tell from them whether the cluster is ready."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from yarn_gpu_sched.embedded.errors import ClusterError

_PAGE_S = 10.0
_PAGE_BYTES_MAX = 64 << 20


def page(port: int, path: str) -> dict[str, Any]:
    """Return a JSON page of a daemon on this machine.

    Raises ClusterError if the daemon does not answer, answers with an error, or not with a JSON object.
    """
    url = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=_PAGE_S) as reply:
            found = json.loads(reply.read(_PAGE_BYTES_MAX))
    except urllib.error.HTTPError as error:
        text = error.read(4096).decode(errors="replace")
        raise ClusterError(f"{url}: HTTP {error.code}: {text}") from error
    except (OSError, ValueError) as error:
        raise ClusterError(f"{url}: {error}") from error
    if not isinstance(found, dict):
        raise ClusterError(f"{url}: not a JSON object")
    return found


def nodes(rm_web: int) -> list[dict[str, Any]]:
    """Return the servers that the ResourceManager knows, in any state."""
    found = page(rm_web, "/ws/v1/cluster/nodes").get("nodes") or {}
    return list(found.get("node", []))


def running_servers(rm_web: int) -> int | None:
    """Return how many servers the ResourceManager counts as RUNNING; None while it does not answer."""
    try:
        return sum(1 for node in nodes(rm_web) if node["state"] == "RUNNING")
    except ClusterError:
        return None


def hdfs_writable(nn_web: int) -> bool:
    """Whether the NameNode has left safe mode and has a DataNode."""
    try:
        beans = page(nn_web, "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState")["beans"]
    except ClusterError:
        return False
    return any(bean.get("FSState") == "Operational" and bean.get("NumLiveDataNodes", 0) > 0 for bean in beans)
