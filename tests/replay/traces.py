"""The traces that the project carries, and small ones made for a test."""

import gzip
import json
from pathlib import Path
from typing import Any

TRACES = Path(__file__).parents[1] / "data" / "traces"
PHILLY_WEEK = TRACES / "philly_week.csv.gz"
PHILLY_QUOTAS = TRACES / "philly_week_quotas.csv"
ITP = TRACES / "itp"
OPENB_PODS = TRACES / "openb" / "pods.csv.gz"
OPENB_NODES = TRACES / "openb" / "nodes.csv"
JUDGE = Path(__file__).parents[1] / "vendored" / "check_schedule.py"

JOBS_HEADER = "job_id,submit,num_gpus,duration,cluster"
HELIOS_HEADER = "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
OPENB_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)


def written(folder: Path, *lines: str, name: str = "trace.csv") -> Path:
    """Write a file of these lines."""
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return path


def unpacked(packed: Path, folder: Path) -> Path:
    """Unpack a trace for the judge, which reads plain files only."""
    path = folder / packed.name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def philly_job(**changes: object) -> dict[str, Any]:
    """Return a job as Philly's log has it: two attempts, the second one on two servers."""
    job: dict[str, Any] = {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1506638472019_14199",
        "attempts": [
            attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", m47=8),
            attempt("2017-10-07 01:13:30", "2017-10-09 06:53:12", m47=8, m412=8),
        ],
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    }
    return {**job, **changes}


def attempt(start_time: str | None, end_time: str | None, **servers: int) -> dict[str, Any]:
    """Return an attempt with so many GPUs on each server."""
    detail = [{"ip": ip, "gpus": [f"gpu{index}" for index in range(gpus)]} for ip, gpus in servers.items()]
    return {"start_time": start_time, "end_time": end_time, "detail": detail}


def philly_log(folder: Path, *jobs: object) -> Path:
    """Write a log of these jobs."""
    path = folder / "cluster_job_log"
    path.write_text(json.dumps(list(jobs), indent=4), encoding="utf-8")
    return path
