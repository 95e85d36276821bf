"""The scheduling service: gRPC servicers, settings and metrics around one engine.

`run` serves until it is told to stop; `Service` is the same for embedding and tests, with a clock that
may be a `FakeClock`. Settings come from `load_settings`; `check_config` checks a file by itself.
"""

from yarn_gpu_sched.service.clock import Clock, FakeClock, LoopClock
from yarn_gpu_sched.service.listening import CannotStart
from yarn_gpu_sched.service.server import Service
from yarn_gpu_sched.service.serving import run
from yarn_gpu_sched.service.settings import Settings
from yarn_gpu_sched.service.settings_files import BadSettings, Problem, check_config, load_settings

__all__ = [
    "BadSettings",
    "CannotStart",
    "Clock",
    "FakeClock",
    "LoopClock",
    "Problem",
    "Service",
    "Settings",
    "check_config",
    "load_settings",
    "run",
]
