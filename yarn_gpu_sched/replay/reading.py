"""Which format a trace has, seen by its content."""

from pathlib import Path

from yarn_gpu_sched.replay.csv_traces import (
    HELIOS_COLUMNS,
    JOB_COLUMNS,
    OPENB_COLUMNS,
    helios_of,
    jobs_of,
    openb_of,
)
from yarn_gpu_sched.replay.layout import LISTS
from yarn_gpu_sched.replay.philly import philly_of
from yarn_gpu_sched.replay.rows import Table
from yarn_gpu_sched.replay.source import Source
from yarn_gpu_sched.replay.trace import Trace

READERS = ((HELIOS_COLUMNS, helios_of), (OPENB_COLUMNS, openb_of), (JOB_COLUMNS, jobs_of))


def read_trace(path: Path | str, *, skip_bad_rows: bool = False) -> Trace:
    """Read a trace of any known format, plain or gzip.

    Raises TraceError with line, column and value for what is not right, OSError where the file cannot be read.
    ``skip_bad_rows``: rows that are not right are counted and listed in the trace instead.
    """
    with Source(Path(path)) as source:
        if source.is_json():
            return philly_of(source, skip_bad_rows=skip_bad_rows)
        table = Table(source)
        for columns, reader in READERS:
            if table.has(columns):
                return reader(source, table, skip_bad_rows=skip_bad_rows)
        if any(table.has(columns) for columns in LISTS):
            raise table.unknown("jobs would be right: this is a list of servers, which --server-list takes")
        right = "the columns of a known format (docs/replay.md), for example job_id,submit,num_gpus,duration,"
        raise table.unknown(f"{right} would be right")
