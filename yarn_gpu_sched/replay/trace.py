"""What a trace says: jobs with their submission, size and duration, and what had to be assumed to read it."""

from hashlib import sha256
from typing import NamedTuple

import msgspec

GPUS_MAX = 10**9
"""Most GPUs that a job of a trace may ask; what is more is taken for rubbish."""

TIME_MAX_S = 10**12
"""Latest time and longest duration, seconds; what is more is taken for rubbish."""

JOBS_MAX = 2_000_000
"""Most jobs of a trace; the largest published one has 1.8 million, with those that ask no GPUs."""

BAD_ROWS_MAX = 100_000
"""Most bad rows that are skipped: what has more is not a trace."""

BAD_ROWS_LISTED_MAX = 100
STATES_MAX = 32
VCS_MAX = 16
NAME_CHARACTERS_MAX = 200
ONE_VC = "all"
"""The virtual cluster of jobs that name none, unless others name it."""

VALUE_CHARACTERS_MAX = 80


class TraceJob(NamedTuple):
    """A job of a trace: ``gpus`` members of one GPU each, submitted and lasting whole seconds."""

    job_id: str
    submit_s: int
    gpus: int
    duration_s: int
    vc: str


class TraceError(ValueError):
    """A trace that cannot be read: where, what was found there, and what would be right."""

    def __init__(self, path: str, line: int, column: str, value: str, right: str) -> None:
        self.path = path
        self.line = line
        self.column = column
        self.value = value
        self.right = right
        where = f"{path}, line {line}" if line else path
        found = " ".join(part for part in (column, _shown(value) if value or column else "") if part)
        super().__init__(": ".join(part for part in (where, found, right) if part))


def _shown(value: str) -> str:
    return repr(value if len(value) <= VALUE_CHARACTERS_MAX else f"{value[: VALUE_CHARACTERS_MAX - 3]}...")


def writable(text: str) -> str:
    r"""Return a text that can be written as UTF-8: what cannot, half a character of UTF-16 or a byte of a name, as ``\ud800``."""
    return text.encode(errors="backslashreplace").decode()


class Trace(msgspec.Struct):
    """The jobs in order of submission, ties as in the file.

    ``form``: which format the file has. ``first_s``: seconds since 1970, by the trace's own clock, of time 0; None where its times
    are relative. ``without_vc``: how many jobs name no virtual cluster and were put into ``one_vc``, which no other job names.
    ``assumed``: what was taken for right to read it, a sentence each. ``noted``: how many jobs were not taken as the file says, by
    what was done. ``skipped``: rows that are no jobs to be replayed, by reason. ``states``: how the jobs ended, as the file says.
    ``bad_rows``: the first rows that could not be read, ``bad_rows_count`` how many there were. ``sha256``: hash of the file,
    unpacked.
    """

    name: str
    form: str
    jobs: list[TraceJob]
    first_s: int | None = None
    without_vc: int = 0
    one_vc: str = ONE_VC
    assumed: list[str] = []
    noted: dict[str, int] = {}
    skipped: dict[str, int] = {}
    states: dict[str, int] = {}
    bad_rows: list[str] = []
    bad_rows_count: int = 0
    sha256: str = ""


def check_jobs(trace: Trace) -> None:
    """See that jobs stand in order of submission, each once, with a size and a duration. Raises ValueError; readers see to it."""
    seen: set[str] = set()
    before_s = 0
    for job in trace.jobs:
        right = None
        if job.job_id in seen:
            right = "an id that occurs once"
        elif job.submit_s < before_s:
            right = f"jobs in order of submission, from 0 s on, but {job.submit_s} follows {before_s},"
        elif job.gpus < 1 or job.duration_s < 1:
            right = "1 GPU and 1 s at least"
        if right is not None:
            raise ValueError(f"{trace.name}: job {job.job_id}: {right} would be right")
        seen.add(job.job_id)
        before_s = job.submit_s


def deal_vcs(trace: Trace, count: int) -> None:
    """Deal the jobs that name no virtual cluster to so many, "0", "1", …, by the hash of their ids. Raises ValueError.

    The first hexadecimal digit of the SHA-256 of the id, modulo the count: the same job goes to the same one in every trace.
    """
    if not 1 <= count <= VCS_MAX:
        raise ValueError(f"virtual clusters {count}: 1 to {VCS_MAX} would be right")
    if not trace.without_vc:
        raise ValueError(f"{trace.name}: every job names its virtual cluster, none is left to be dealt")
    trace.jobs = [job._replace(vc=_dealt(job.job_id, count)) if job.vc == trace.one_vc else job for job in trace.jobs]
    dealt = f"jobs without a virtual cluster are dealt to {count}, by the hash of their ids (--vcs)"
    trace.assumed = [*(text for text in trace.assumed if not text.startswith("jobs without a virtual")), dealt]


def _dealt(job_id: str, count: int) -> str:
    return str(int(sha256(job_id.encode()).hexdigest()[0], 16) % count)
