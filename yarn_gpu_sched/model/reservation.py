"""Places that are kept for a gang which has waited too long (law 9)."""

import msgspec

from yarn_gpu_sched.model.preemption import Need


class Reservation(msgspec.Struct):
    """What is kept for a gang of so many GPUs, server by server: what is free there at once, the rest as it becomes free.

    ``attempt`` and ``level`` are its own and that of the place. Times in seconds by the engine's clock: since when it is kept, when
    the place was last looked for, and when all of it is expected to be free (None: nobody knows how long those run that hold it).
    ``awaited``: those jobs, the first ones.
    """

    job_id: str
    attempt: int
    partition: str
    gpus: int
    level: int
    needs: tuple[Need, ...]
    since_s: float
    planned_s: float
    ready_s: float | None
    awaited: tuple[str, ...] = ()

    @property
    def server_ids(self) -> tuple[str, ...]:
        """Where."""
        return tuple(need.server_id for need in self.needs)
