"""Names of archived files: kind, day, hour and part."""

import datetime as dt
import re

import msgspec

from yarn_gpu_sched.archive.kinds import Kind

HOUR_S = 3_600
PART_FOLDER = "_part"
"""Where files lie until they are whole."""

_NAME = re.compile(r"(?P<kind>jobs|use|gpus)-(?P<hour>\d{4}-\d\d-\d\dT\d\d)Z-(?P<part>[0-9a-f]{16})")
_HOUR = "%Y-%m-%dT%H"


def hour_of(time_s: float) -> int:
    """Give the beginning of an hour (seconds since 1970, UTC)."""
    return int(time_s // HOUR_S) * HOUR_S


class FileName(msgspec.Struct, frozen=True, order=True):
    """A file of the archive; ``hour_s``: the hour in which it was written."""

    hour_s: int
    kind: Kind
    part: str

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return f"{self.kind.value}-{dt.datetime.fromtimestamp(self.hour_s, dt.UTC).strftime(_HOUR)}Z-{self.part}"

    @property
    def day(self) -> str:
        """The folder of its day below that of its kind."""
        return f"date={dt.datetime.fromtimestamp(self.hour_s, dt.UTC).date().isoformat()}"

    @property
    def path(self) -> str:
        """Where it is below the archive's root."""
        return f"{self.kind.value}/{self.day}/{self.stem}.parquet"


def parse_name(name: str, ending: str = ".parquet") -> FileName | None:
    """Read the name of a file, without folders; None if it is none of the archive's."""
    match = _NAME.fullmatch(name.removesuffix(ending)) if name.endswith(ending) else None
    if match is None:
        return None
    try:
        hour = dt.datetime.strptime(match["hour"], _HOUR).replace(tzinfo=dt.UTC)
    except ValueError:
        return None
    return FileName(int(hour.timestamp()), Kind(match["kind"]), match["part"])
