"""What is known of preemption: whether it is armed, and which jobs are being stopped for which (law 7)."""

import enum

import msgspec


class Mode(enum.Enum):
    """Whether borrowed jobs are stopped: never; only shown which would be; or really."""

    OFF = "off"
    OBSERVE = "observe"
    ON = "on"


class Victim(msgspec.Struct, frozen=True, gc=False):
    """Who is stopped: a job whole, or single containers of one without a gang.

    ``cost`` is what is lost by it: GPUs x (seconds since its last checkpoint + 300).
    """

    job_id: str
    attempt: int
    gpus: int
    cost: float
    started_s: float
    container_ids: tuple[str, ...] = ()


class Need(msgspec.Struct, frozen=True, gc=False):
    """What a gang takes on one server, by the placement that was proven: a mask of GPU indices, memory, vcores.

    ``portions``: how many containers of which kind those are. Where it may be any GPUs of the server, ``count`` says how many,
    and the mask is 0.
    """

    server_id: str
    mask: int
    memory_mb: int
    vcores: int
    portions: tuple[tuple[int, int], ...] = ()
    count: int = 0

    @property
    def gpus(self) -> int:
        """The GPUs."""
        return self.count or self.mask.bit_count()

    def on(self, mask: int) -> "Need":
        """Take these GPUs of the server instead."""
        return msgspec.structs.replace(self, mask=mask)


class Plan(msgspec.Struct):
    """Jobs that are stopped for a gang. Times in seconds by the engine's clock.

    ``attempt`` is the preemptor's, ``level`` that of the placement which was proven. ``in_use`` and ``usable`` count the GPUs of
    the partition when it was decided. Until ``grace_until_s`` the victims are only warned; from ``stopped_s`` on they are being
    stopped, and what they leave is held for the preemptor until ``hold_until_s``.
    """

    job_id: str
    attempt: int
    partition: str
    level: int
    victims: tuple[Victim, ...]
    needs: tuple[Need, ...]
    decided_s: float
    grace_until_s: float
    in_use: int
    usable: int
    stopped_s: float | None = None
    hold_until_s: float | None = None

    @property
    def gpus(self) -> int:
        """The GPUs that the gang takes."""
        return sum(need.gpus for need in self.needs)


class Preempted(msgspec.Struct, frozen=True, gc=False):
    """That a job was stopped for another: when, for whom, in which virtual cluster that one is, and what it lost, GPU-seconds."""

    at_s: float
    by_job_id: str
    by_vc: str
    lost_gpu_s: float


class Tenure(msgspec.Struct):
    """How a job stands with preemption. Times in seconds by the engine's clock.

    ``ready_s``: since when the gang of this attempt has waited, complete; ``waits_s``: the same, or since when its master waits
    that has GPUs and is placed only where its gang fits too. ``again_s``: when it is looked again whom to stop for it, after
    that was observed or was in vain. ``preempted``: when and for whom it was stopped, in all attempts. ``checkpoint_s``: when it
    last reported a checkpoint in this attempt, ``checkpoint_every_s``: how often it says that it makes one. ``unstoppable``: the
    resource manager refused to stop this attempt. ``idle``: it uses none of its GPUs, and may be stopped for that.
    """

    ready_s: float | None = None
    waits_s: float | None = None
    again_s: float = 0.0
    preempted: tuple[Preempted, ...] = ()
    checkpoint_s: float | None = None
    checkpoint_every_s: int | None = None
    unstoppable: bool = False
    idle: bool = False

    def due_s(self, after_s: float) -> float | None:
        """Say when it has waited so long, complete, and it may be looked whom to stop for it; None: it does not wait."""
        return None if self.ready_s is None else max(self.ready_s + after_s, self.again_s)

    def begin_anew(self) -> None:
        """Follow another attempt of the job."""
        self.ready_s = self.waits_s = self.checkpoint_s = None
        self.again_s = 0.0
        self.unstoppable = self.idle = False
