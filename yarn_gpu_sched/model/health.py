"""What telemetry and operators say of servers and GPUs, and what is made of it. docs/health.md is this in a table."""

import enum

import msgspec

SLOTS_MAX = 64
"""GPUs of a server."""
XIDS_KEPT = 16
"""Xid events of a GPU that are remembered."""
UNLISTED = "memory is in use, and no process is listed"
"""Who holds a GPU of which the driver does not say whose processes are on it: its holder, if it has one."""


class Telemetry(enum.Enum):
    """What is known of a server's telemetry."""

    NONE = "none"
    """No monitor ever spoke for it: its GPUs count as healthy."""
    LIVE = "live"
    SILENT = "silent"
    """Its monitor has not been heard for too long."""
    UNREADABLE = "unreadable"
    """Its monitor speaks, and its GPUs cannot be read."""


class Health(enum.Enum):
    """State of a GPU. Only one that is ok is given out."""

    OK = "ok"
    SUSPECT = "suspect"
    """It read badly some times in a row."""
    QUARANTINED = "quarantined"
    """It is broken, or an operator took it out."""
    RECOVERING = "recovering"
    """It reads well again, and has to for a while."""


class Fault(enum.Enum):
    """What may be wrong with a GPU."""

    XID_48 = "xid_48"
    """Double-bit ECC error."""
    XID_63 = "xid_63"
    """A page was retired, or a row remapped."""
    XID_64 = "xid_64"
    """A page could not be retired, or a row not remapped."""
    XID_74 = "xid_74"
    """NVLink error."""
    XID_79 = "xid_79"
    """It has fallen off the bus."""
    XID_94 = "xid_94"
    """Contained ECC error."""
    XID_95 = "xid_95"
    """Uncontained ECC error."""
    ECC_UNCORRECTABLE = "ecc_uncorrectable"
    """More uncorrectable ECC errors than an operator has acknowledged."""
    VANISHED = "vanished"
    """It was there, and is not listed any more."""
    OPERATOR = "operator"
    """An operator took it out."""
    MIG = "mig"
    """It is cut into slices: not to be given out whole."""
    THROTTLED = "throttled"
    """Its hardware slows it down: heat, power brake."""
    NOT_FREE = "not_free"
    """Something holds it that was given no GPU here, and does not go."""


XID_FAULTS = {int(fault.value.removeprefix("xid_")): fault for fault in Fault if fault.value.startswith("xid_")}
"""The Xid errors that say that a GPU is broken; others are those of programs, and only shown."""

STICKY = frozenset({*XID_FAULTS.values(), Fault.ECC_UNCORRECTABLE, Fault.VANISHED, Fault.OPERATOR})
"""Faults of the kind that comes back: they stay until an operator acknowledges them."""

AT_ONCE = frozenset({*XID_FAULTS.values(), Fault.ECC_UNCORRECTABLE, Fault.OPERATOR, Fault.MIG})
"""Faults for which a GPU is quarantined when they are first seen."""

LEVELS = (Fault.MIG, Fault.THROTTLED)
"""Faults that a report tells as they are now; the others are events, or worked out."""


class Mark(msgspec.Struct, frozen=True):
    """What an operator said of a server or a GPU; ``at_s`` is by the wall clock, to be shown."""

    why: str
    by: str
    at_s: float


class MarkAction(enum.Enum):
    """What an operator may say."""

    DRAIN = "drain"
    UNDRAIN = "undrain"
    QUARANTINE = "quarantine"
    ACK = "ack"


class XidSeen(msgspec.Struct, frozen=True):
    """An Xid error, and when it happened."""

    xid: int
    at_s: float


class GpuReport(msgspec.Struct, frozen=True, gc=False):
    """What telemetry says of one slot.

    ``present``: its card is listed. ``faults`` are those of `LEVELS` that it shows. ``ecc_uncorrected`` counts since the driver
    was loaded, None if it does not say. ``occupants`` are the containers whose processes hold it, in order; other holders go by a
    name that no container has. ``xids`` are events since the report before.
    """

    slot: int
    uuid: str
    present: bool = True
    faults: tuple[Fault, ...] = ()
    ecc_uncorrected: int | None = None
    occupants: tuple[str, ...] = ()
    xids: tuple[XidSeen, ...] = ()


class GpuRecord(msgspec.Struct):
    """What is known of one slot, by the engine's clock.

    ``sticky`` are the faults that wait for an acknowledgement, ``levels`` those that the last report showed. ``bad``: bad reports
    in a row. ``good_since_s``: since when it has read well, where that is waited for. ``ecc_acked``: uncorrectable errors that an
    operator has acknowledged. ``released``: its last container is gone, and no reading since then has shown it free. ``foreign``:
    somebody else than its holder holds it; ``not_free_since_s``: since when one of the two is so.
    """

    slot: int
    uuid: str = ""
    present: bool = True
    health: Health = Health.OK
    since_s: float = 0.0
    sticky: tuple[Fault, ...] = ()
    levels: tuple[Fault, ...] = ()
    bad: int = 0
    good_since_s: float | None = None
    ecc: int | None = None
    ecc_acked: int = 0
    acked_s: float | None = None
    occupants: tuple[str, ...] = ()
    released: str = ""
    foreign: bool = False
    not_free_since_s: float | None = None
    alarmed: bool = False
    mark: Mark | None = None
    xids: tuple[XidSeen, ...] = ()

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that is wrong with it."""
        worked_out = ((Fault.VANISHED, not self.present), (Fault.NOT_FREE, self.alarmed))
        return tuple(dict.fromkeys([*self.sticky, *self.levels, *(fault for fault, is_so in worked_out if is_so)]))

    @property
    def out(self) -> bool:
        """Whether it is not given out for the moment, though it may be healthy."""
        return self.foreign or bool(self.released)


class HostRecord(msgspec.Struct):
    """What is known of one server by its host name. ``bad``: failed readings in a row, ``good_since_s``: since when it reads well.

    ``slots``: how many its monitor counts, None if it has not said; ``links``: how well its GPUs are connected, a row of scores a
    slot; empty: nobody knows. ``away``: by UUID what is known of cards that were not well and are in no slot now.
    """

    host: str
    telemetry: Telemetry = Telemetry.NONE
    detail: str = ""
    since_s: float = 0.0
    bad: int = 0
    unreadable: bool = False
    good_since_s: float | None = None
    gpus: list[GpuRecord] = []
    slots: int | None = None
    links: tuple[tuple[int, ...], ...] = ()
    drained: Mark | None = None
    away: dict[str, "KeptGpu"] = {}

    def forget_telemetry(self) -> None:
        """Forget all that only a monitor said."""
        self.gpus, self.slots, self.links, self.unreadable, self.away = [], None, (), False, {}

    @property
    def says_something(self) -> bool:
        """Whether forgetting it would change anything."""
        return self.telemetry is not Telemetry.NONE or self.drained is not None or bool(self.gpus)


class KeptGpu(msgspec.Struct, frozen=True):
    """What outlasts a restart of one GPU."""

    slot: int
    uuid: str = ""
    sticky: tuple[Fault, ...] = ()
    ecc_acked: int = 0
    mark: Mark | None = None

    @property
    def says_something(self) -> bool:
        """Whether a card of which only this is known differs from a new one."""
        return bool(self.sticky or self.ecc_acked or self.mark)


class KeptHost(msgspec.Struct, frozen=True):
    """What outlasts a restart of one server; ``watched``: it has a monitor, so until that speaks nothing new is placed there.

    ``away`` are cards that are in no slot now.
    """

    host: str
    watched: bool = False
    drained: Mark | None = None
    gpus: tuple[KeptGpu, ...] = ()
    away: tuple[KeptGpu, ...] = ()
