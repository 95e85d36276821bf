"""The record of every applied event, and its replay (law 11).

1. A record is a directory of numbered files. Each begins with a snapshot of the engine, then come events in the order in which they
   were applied. So any suffix of the files replays to the same state.
2. Files are bounded in bytes, and the oldest go when there are too many.
3. Every entry carries its length and checksum. A tail that was torn by a crash ends the replay of its file; it is not an error.
4. `Recorder.record` is called before `Engine.apply`, with the same event.
"""

from yarn_gpu_sched.journal.entries import RecordError
from yarn_gpu_sched.journal.recorder import Recorder
from yarn_gpu_sched.journal.replay import DivergedError, replay

__all__ = ["DivergedError", "RecordError", "Recorder", "replay"]
