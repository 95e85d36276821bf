"""Every kind of event is recorded and replays to the same state (law 11)."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from tests.engine.test_snapshot import WORLDS
from yarn_gpu_sched.engine import Engine
from yarn_gpu_sched.engine.events import AnyEvent
from yarn_gpu_sched.journal import Recorder, replay


@pytest.mark.parametrize("name", WORLDS)
def test_what_an_engine_lives_through_replays_to_the_same_state(name: str, tmp_path: Path) -> None:
    make, settings = WORLDS[name]
    live = Engine(settings)
    recorder = Recorder(tmp_path, live, file_bytes_max=1 << 20, files_max=10)
    for event in make().events:
        recorder.record(event)
        live.apply(event)
    recorder.close()
    assert replay(tmp_path).digest() == live.digest()


def test_every_kind_of_event_is_among_these() -> None:
    seen = {type(event) for make, _ in WORLDS.values() for event in make().events}
    assert {kind.__name__ for kind in get_args(AnyEvent)} - {kind.__name__ for kind in seen} == set()
