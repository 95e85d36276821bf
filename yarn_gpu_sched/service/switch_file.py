"""The file in which an operator's switch of preemption survives a restart."""

from datetime import datetime
from pathlib import Path

import msgspec

from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.protocol.bounds import CALLER_CHARACTERS_MAX, REASON_CHARACTERS_MAX
from yarn_gpu_sched.service.state_file import Damaged, StateFile, UnfitStateDirectory

FILE_NAME = "preemption.json"

__all__ = ["FILE_NAME", "Damaged", "Switch", "SwitchFile", "UnfitStateDirectory"]


class Switch(msgspec.Struct, frozen=True):
    """What an operator said: the mode, why, who it was as far as is known, and when by the wall clock."""

    mode: Mode
    why: str
    by: str
    time: datetime


class SwitchFile(StateFile[Switch]):
    """One switch in a directory."""

    def __init__(self, directory: Path) -> None:
        """Take the directory, and make it if need be; `UnfitStateDirectory` if it cannot be written."""
        super().__init__(directory, FILE_NAME, Switch)

    def _fault(self, found: Switch) -> str:
        if len(found.why) > REASON_CHARACTERS_MAX or len(found.by) > CALLER_CHARACTERS_MAX or found.time.tzinfo is None:
            return "a text is too long, or its time has no zone"
        return ""
