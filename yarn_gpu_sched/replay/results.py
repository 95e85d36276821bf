"""The folder of a replay's results: whole, or not there."""

import secrets
import shutil
import tempfile
from pathlib import Path

import msgspec

from yarn_gpu_sched.replay.layout import servers_of
from yarn_gpu_sched.replay.run import Replay
from yarn_gpu_sched.replay.schedule import write_csv, write_delays, write_schedule

SUMMARY = "summary.json"
FILES = ("schedule.csv", "holds.csv", "delays.csv", "servers.csv", "trace.csv", SUMMARY)
"""All that a replay may write, the last one last: where it is, the results are whole."""


class ResultsError(ValueError):
    """A folder that results cannot be written to."""


def check_folder(folder: Path, *, force: bool = False) -> None:
    """See, before a replay, that its results can be written there; ``force``: over older ones. Raises ResultsError."""
    if folder.exists() and not folder.is_dir():
        raise ResultsError(f"{folder}: a folder would be right")
    there = [name for name in FILES if (folder / name).exists()]
    if there and not force:
        raise ResultsError(
            f"{folder} holds results already ({', '.join(there)}); another folder, or --force, would be right"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for place in (folder.parent, folder):
            if place.exists():
                tempfile.TemporaryFile(dir=place).close()
    except OSError as problem:
        raise ResultsError(f"{folder}: a folder that can be written to would be right ({problem.strerror})") from None


def write_results(replay: Replay, folder: Path | str, *, force: bool = False) -> None:
    """Write a replay's results: all of them or, on an error or Ctrl-C, none. Raises ResultsError, OSError."""
    folder = Path(folder).absolute()
    check_folder(folder, force=force)
    made = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    made.mkdir()
    try:
        _write(replay, made)
        _move(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write(replay: Replay, folder: Path) -> None:
    write_schedule(folder / "schedule.csv", replay.attempts)
    write_delays(folder / "delays.csv", replay.attempts)
    servers = servers_of(replay.scenario.gpus, replay.scenario.domains)
    listed = replay.scenario.servers
    names = [server.server_id for server in servers] if isinstance(listed, str) else [server.name for server in listed]
    rows = [(one.server_id, one.rack, one.capacity.gpus, name) for one, name in zip(servers, names, strict=True)]
    write_csv(folder / "servers.csv", ("server", "domain", "gpus", "name"), rows)
    write_csv(folder / "trace.csv", ("job_id", "submit", "num_gpus", "duration", "cluster"), replay.trace.jobs)
    encoded = msgspec.json.format(msgspec.json.encode(replay.summary), indent=1)
    (folder / SUMMARY).write_bytes(encoded + b"\n")


def _move(made: Path, folder: Path) -> None:
    if not folder.exists():
        made.rename(folder)
        return
    (folder / SUMMARY).unlink(missing_ok=True)
    for name in FILES:
        if (made / name).exists():
            (made / name).replace(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
