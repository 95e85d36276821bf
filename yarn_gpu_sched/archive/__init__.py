"""The archive of what ran: how its files are named and what is in them, where they are, and how they are read.

1. A file holds rows of one kind (`Kind`) and is written once: under another name first, then renamed. Whoever lists the archive
   sees whole files or none.
2. Names say kind, hour (UTC) and part. The part is random, so two services, or one that was started again, never use the same name.
3. Whatever is not named so is left alone, whoever put it there.
4. pyarrow and hdfs are imported where they are needed, not before; `need_extra` says in one sentence what is missing.

docs/archive.md has every column with its meaning and unit.
"""

from yarn_gpu_sched.archive.extra import MissingExtraError, need_extra
from yarn_gpu_sched.archive.kinds import COLUMNS, Kind, batch_of, rows_of
from yarn_gpu_sched.archive.names import FileName, hour_of, parse_name
from yarn_gpu_sched.archive.reading import Archive, ArchivedAttempt, Place
from yarn_gpu_sched.archive.stores import ArchiveError, FolderStore, HdfsStore, Store, open_store
from yarn_gpu_sched.archive.usage import BY, Usage, usage

__all__ = [
    "BY",
    "COLUMNS",
    "Archive",
    "ArchiveError",
    "ArchivedAttempt",
    "FileName",
    "FolderStore",
    "HdfsStore",
    "Kind",
    "MissingExtraError",
    "Place",
    "Store",
    "Usage",
    "batch_of",
    "hour_of",
    "need_extra",
    "open_store",
    "parse_name",
    "rows_of",
    "usage",
]
