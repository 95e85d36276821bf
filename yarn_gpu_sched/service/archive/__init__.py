"""The archive of what ran, as the service writes it: rows on the event loop, a spool on a thread, an upload on another.

1. The event loop keeps a `Book` of who holds GPUs, and hands rows over in a bounded queue. It reads and writes no file.
2. One thread (`Writer`) puts rows into the spool, each on the disk before the next; it alone begins, closes and drops files.
3. One thread (`Uploader`) turns closed files into Parquet and puts them into the archive, oldest first, whole and once.
4. What the archive cannot take is counted and said in the log; it never stops scheduling.

docs/archive.md says what is promised.
"""

from yarn_gpu_sched.service.archive.archiving import Archiving, Around, archiving_of
from yarn_gpu_sched.service.archive.spool import SpoolInUseError

__all__ = ["Archiving", "Around", "SpoolInUseError", "archiving_of"]
