"""The servers of a replayed cluster: all alike, or as a published list has them."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from yarn_gpu_sched.model.resource import Resource
from yarn_gpu_sched.model.server import Server
from yarn_gpu_sched.replay.rows import Table
from yarn_gpu_sched.replay.source import Source

SERVERS_MAX = 100_000
GPUS_A_SERVER_MAX = 1_024
LISTS = {("machineId", "number of GPUs"): "Philly's", ("sn", "gpu"): "openb's"}
"""The columns of the name and of the GPUs in the lists of servers that can be read."""

_UNIFORM = re.compile(r"(\d{1,6})x(\d{1,4})", re.ASCII)


class ListedServer(msgspec.Struct, frozen=True):
    """A server of a published list, by its name there. Raises ValueError where its GPUs are out of range."""

    name: str
    gpus: int

    def __post_init__(self) -> None:
        """Check the range."""
        if type(self.gpus) is not int or not 1 <= self.gpus <= GPUS_A_SERVER_MAX:
            right = f"a whole number from 1 to {GPUS_A_SERVER_MAX}"
            raise ValueError(f"server {self.name}: gpus {self.gpus!r}: {right} would be right")


def uniform(text: str) -> list[int]:
    """Read `60x8`: the GPUs of each of 60 servers. Raises ValueError."""
    match = _UNIFORM.fullmatch(text.strip().lower())
    count, gpus = (int(part) for part in match.groups()) if match else (0, 0)
    if not 1 <= count <= SERVERS_MAX or not 1 <= gpus <= GPUS_A_SERVER_MAX:
        right = f"SERVERSxGPUS with 1 to {SERVERS_MAX} servers of 1 to {GPUS_A_SERVER_MAX} GPUs"
        raise ValueError(f'servers "{text}": {right} would be right, for example 60x8')
    return [gpus] * count


def read_servers(path: Path | str) -> list[ListedServer]:
    """Read Philly's `cluster_machine_list` or openb's list of nodes: the servers that have GPUs, in the file's order."""
    with Source(Path(path)) as source:
        table = Table(source)
        columns = next((columns for columns in LISTS if table.has(columns)), None)
        if columns is None:
            raise table.unknown("columns machineId and number of GPUs, or sn and gpu, would be right")
        name, gpus = columns
        servers: dict[str, int] = {}
        for row in table.rows():
            server = row.text(name)
            if server in servers:
                raise row.error(name, "a name that occurs once would be right")
            if len(servers) == SERVERS_MAX:
                raise row.error(name, f"at most {SERVERS_MAX} servers would be right")
            servers[server] = row.whole(gpus, 0, GPUS_A_SERVER_MAX)
        found = [ListedServer(server, count) for server, count in servers.items() if count]
        if not found:
            raise source.error(0, "", "", "at least one server with GPUs would be right")
        return found


def domain_size(servers: int, domains: int) -> int:
    """Say how many servers a domain has; the last one may have fewer. Raises ValueError."""
    if not 1 <= domains <= servers:
        raise ValueError(f"domains {domains}: 1 to {servers}, the number of servers, would be right")
    return -(-servers // domains)


def servers_of(gpus: Sequence[int], domains: int) -> list[Server]:
    """Name servers s0000, s0001, … and deal them out in order to RDMA domains of `domain_size`. Raises ValueError."""
    size = domain_size(len(gpus), domains)
    return [
        Server(f"s{number:04d}", f"s{number:04d}", f"/d{number // size}", Resource(0, 0, count))
        for number, count in enumerate(gpus)
    ]
