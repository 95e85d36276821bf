"""Which idle GPUs are kept for which job, and for how long: a row for each GPU and time, as the independent judge reads it."""

from yarn_gpu_sched.model.server_use import indices_of
from yarn_gpu_sched.replay.schedule import Hold


class Holding:
    """Follows what is held from instant to instant. ``rows`` are in order of their ends; what lasts no time is none.

    A row is of one GPU: it ends when somebody else starts there, whatever becomes of the other GPUs that are held for the job.
    """

    def __init__(self) -> None:
        self.rows: list[Hold] = []
        self._open: dict[tuple[str, str], float] = {}

    def follow(self, held: dict[str, tuple[tuple[str, int], ...]], names: dict[str, str], now_s: float) -> None:
        """Take what is held from now on: for each job the servers, and the mask of GPUs there; ``names`` are those of the trace."""
        now = {
            (names[job_id], f"{server_id}:{index}")
            for job_id, places in held.items()
            for server_id, mask in places
            for index in indices_of(mask)
        }
        for key in sorted(self._open.keys() - now):
            began_s = self._open.pop(key)
            if began_s < now_s:
                self.rows.append(Hold(began_s, now_s, *key))
        for key in sorted(now - self._open.keys()):
            self._open[key] = now_s

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self._open)
