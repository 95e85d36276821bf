"""The operator's switch of preemption: it takes effect at once, and then it is written down where there is a place for it."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import msgspec
import structlog

from yarn_gpu_sched.engine import events
from yarn_gpu_sched.engine.views import PreemptionView, VictimView
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.service.caller import current_call
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.switch_file import Damaged, Switch, SwitchFile

WRITES_MAX = 16
"""Switches that wait to be written, when the disk does not answer."""

NO_STATE_DIR = "the service has no state_dir: after a restart its settings hold again"

_log = structlog.get_logger(__name__)


class Turned(msgspec.Struct, frozen=True):
    """What a switch changed: the mode before, and who was warned and is spared. ``not_kept``: why it does not survive a restart."""

    before: Mode
    spared: tuple[VictimView, ...]
    not_kept: str = ""


class PreemptionSwitch:
    """Turned by operators. ``switched`` is what the last of them said, in this run or before; None: the settings hold."""

    def __init__(self, driver: Driver, mode_of_settings: Mode, file: SwitchFile | None) -> None:
        self.mode_of_settings = mode_of_settings
        self.switched: Switch | None = None
        self._driver = driver
        self._file = file
        self._writing = 0
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state_dir")

    @property
    def keeps(self) -> bool:
        """Whether a switch survives a restart."""
        return self._file is not None

    async def restore(self) -> None:
        """Take what an operator said before the service was started; what cannot be read is kept aside."""
        found = None if self._file is None else self._read(self._file)
        if found is not None:
            await self._apply(found)
        mode = self.mode_of_settings if found is None else found.mode
        _log.info("preemption_mode", mode=mode.value, switched=found is not None, why=found.why if found else "")

    def _read(self, file: SwitchFile) -> Switch | None:
        try:
            return file.read()
        except Damaged as damaged:
            error = str(damaged)
        try:
            file.set_aside()
            kept = str(file.directory / file.damaged_name)
        except OSError as failed:
            kept = f"where it is ({failed})"
        _log.warning("state_damaged", error=error, kept=kept, mode=self.mode_of_settings.value)
        return None

    def foretell(self, mode: Mode) -> Turned:
        """Say what a switch would change."""
        view = self._driver.engine.preemption()
        return Turned(view.mode, spared_by(view, mode))

    async def turn(self, mode: Mode, why: str, by: str) -> Turned:
        """Switch; raises `Refusal`. It is carried through even if the caller goes away meanwhile."""
        return await asyncio.shield(self._turn(Switch(mode, why, by, datetime.now(UTC))))

    async def _turn(self, switch: Switch) -> Turned:
        turned = await self._apply(switch)
        current_call().acted(
            "switched",
            before=turned.before.value,
            after=switch.mode.value,
            reason=one_line(switch.why),
            by=one_line(switch.by),
        )
        _log.info(
            "preemption_switched",
            mode=switch.mode.value,
            before=turned.before.value,
            why=switch.why,
            by=switch.by,
            spared=[victim.job_id for victim in turned.spared],
        )
        return msgspec.structs.replace(turned, not_kept=await self._keep())

    async def _apply(self, switch: Switch) -> Turned:
        turned: list[Turned] = []

        def make(now_s: float) -> Sequence[events.AnyEvent]:
            turned.append(self.foretell(switch.mode))
            self.switched = switch
            return [events.PreemptionModeChanged(now_s=now_s, mode=switch.mode, why=switch.why)]

        await self._driver.tell(make)
        return turned[0]

    async def _keep(self) -> str:
        """Write down what was said last; return why that failed, empty if it did not."""
        if self._file is None:
            return NO_STATE_DIR
        if self._writing >= WRITES_MAX:
            return f"state_dir does not answer: {self._writing} switches wait to be written"
        self._writing += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._write, self._file)
        except OSError as error:
            _log.error("state_not_written", error=str(error))
            return f"it could not be written to state_dir: {error}"
        finally:
            self._writing -= 1
        return ""

    def _write(self, file: SwitchFile) -> None:
        """Write in the writer's only thread, so that what is on the disk in the end is what was said last."""
        assert self.switched is not None
        file.write(self.switched)

    def close(self) -> None:
        """Write what is to be written, and let go of the file."""
        self._writer.shutdown()
        if self._file is not None:
            self._file.close()


def spared_by(view: PreemptionView, mode: Mode) -> tuple[VictimView, ...]:
    """List who is only warned, and is spared once preemption is not armed any more."""
    if mode is Mode.ON:
        return ()
    return tuple(victim for plan in view.plans if plan.stage == "warned" for victim in plan.victims)
