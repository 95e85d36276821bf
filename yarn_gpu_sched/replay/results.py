"""The folder of a replay's results: whole, or not there."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from yarn_gpu_sched.replay.layout import servers_of
from yarn_gpu_sched.replay.run import Replay
from yarn_gpu_sched.replay.schedule import write_csv, write_delays, write_holds, write_schedule

SUMMARY = "summary.json"
FILES = ("schedule.csv", "holds.csv", "delays.csv", "servers.csv", "trace.csv", SUMMARY)
"""All that a replay may write, the last one last: where it is, the results are whole."""


class ResultsError(ValueError):
    """A folder that results cannot be written to."""


def check_folder(folder: Path | str, *, force: bool = False, forced_by: str = "force=True") -> None:
    """See, before a replay, that its results can be written there; ``force``: over older ones. Raises ResultsError.

    Nothing is made by that. ``forced_by``: how the caller's user says ``force``, for the error.
    """
    _checked(folder, force=force, forced_by=forced_by)


def _checked(folder: Path | str, *, force: bool, forced_by: str = "force=True") -> Path:
    """Return the folder, links followed."""
    if folder == "":
        raise ResultsError('"": the name of a folder would be right, "." for the current one')
    try:
        resolved = _resolved(Path(folder))
        _check_names(resolved)
        tempfile.TemporaryFile(dir=_nearest(resolved)).close()
    except OSError as problem:
        raise ResultsError(f"{folder}: a folder that can be written to would be right ({problem.strerror})") from None
    there = [name for name in FILES if os.path.lexists(resolved / name)]
    if there and not force:
        raise ResultsError(
            f"{folder} holds results already ({', '.join(there)}); another folder, or {forced_by}, would be right"
        )
    if folders := [name for name in there if (resolved / name).is_dir()]:
        raise ResultsError(f"{folder}: a folder in which {folders[0]} is no folder would be right")
    return resolved


def _resolved(folder: Path) -> Path:
    try:
        folder.stat()
    except FileNotFoundError:
        if folder.is_symlink():
            raise ResultsError(f"{folder}: a link to a folder that is there would be right") from None
    else:
        if not folder.is_dir():
            raise ResultsError(f"{folder}: a folder would be right")
    return folder.resolve()


def _nearest(folder: Path) -> Path:
    """Return the folder or, where it is not there, the nearest one above it that is."""
    return next(place for place in (folder, *folder.parents) if place.exists())


def _check_names(folder: Path) -> None:
    """Raise where a name is longer than the file system takes: it says so itself only once the folder above is made."""
    nearest = _nearest(folder)
    bytes_max = os.pathconf(nearest, "PC_NAME_MAX")
    for name in folder.relative_to(nearest).parts:
        if len(os.fsencode(name)) > bytes_max:
            raise ResultsError(f"{folder}: names of at most {bytes_max} bytes would be right")


def write_results(replay: Replay, folder: Path | str, *, force: bool = False) -> None:
    """Write a replay's results: all of them or, on an error or Ctrl-C, none. Raises ResultsError, OSError."""
    folder = _checked(folder, force=force)
    # Inside the folder or beside it: moving is then no more than a change of names in one file system.
    with _parents(folder):
        made = (folder if folder.exists() else folder.parent) / f".ygs-{secrets.token_hex(4)}"
        made.mkdir()
        try:
            _write(replay, made)
            _move(made, folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _parents(folder: Path) -> Iterator[None]:
    """Make the folders above; they go again if what is done in them fails."""
    missing = [place for place in folder.parents if not place.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for place in missing:
            if place.exists() and not any(place.iterdir()):
                place.rmdir()
        raise


def _write(replay: Replay, folder: Path) -> None:
    write_schedule(folder / "schedule.csv", replay.attempts)
    if replay.scenario.preemption or replay.scenario.reserve_after_s:
        write_holds(folder / "holds.csv", replay.holds)
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
