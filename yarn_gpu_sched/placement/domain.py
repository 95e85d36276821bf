"""The free GPUs of one RDMA domain."""

from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.pack import Row

Signature = tuple[tuple[Row, int], ...]
"""(make of a server, how many of them), in order."""


class Domain:
    """Servers of one domain and one partition, by what is free there.

    Sets of servers are integers: bit i stands for ``uses[i]``, and the servers are in the order of their ids.
    ``by_free[f]`` are the servers with exactly f free GPUs, ``counts[f]`` says how many they are (not kept for 0), ``by_cell`` are
    the servers of each cell of spare memory and vcores (see spare.py). The counts, and what follows from them, lag behind while
    ``moved`` is not 0: its bit f tells that servers came to f free GPUs or went from there. ``tallied[f]`` is the count that the
    partition's tallies have; the bits of ``lags`` tell where ``counts`` says otherwise since.
    """

    __slots__ = (
        "bit",
        "by_cell",
        "by_free",
        "counts",
        "domain_id",
        "gpus_free",
        "lags",
        "moved",
        "signature",
        "slots",
        "tallied",
        "uses",
    )

    def __init__(self, domain_id: str) -> None:
        self.domain_id = domain_id
        self.bit = 0
        self.uses: list[ServerUse] = []
        self.by_free: list[int] = []
        self.counts: list[int] = []
        self.tallied: list[int] = []
        self.by_cell: dict[int, int] = {}
        self.gpus_free = 0
        self.moved = 0
        self.lags = 0
        self.slots: dict[int, int] = {}
        self.signature: Signature = ()

    def clear(self, bit: int) -> None:
        """Begin anew as the domain of this bit: nothing is indexed."""
        self.bit = bit
        self.by_free = []
        self.counts = []
        self.tallied = []
        self.by_cell = {}
        self.gpus_free = 0
        self.moved = 0
        self.lags = 0
        self.slots = {}
        for use in self.uses:
            use.indexed = False

    def first(self, servers: int) -> ServerUse:
        """Give the first server of a set that is not empty."""
        return self.uses[(servers & -servers).bit_length() - 1]

    def empty_signature(self) -> Signature:
        """Describe the usable servers as if they were empty: how many of each make."""
        counts: dict[Row, int] = {}
        for use in self.uses:
            if use.usable:
                row = Row.empty_of(use)
                counts[row] = counts.get(row, 0) + 1
        return tuple(sorted(counts.items()))
