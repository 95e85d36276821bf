"""The proof that a master sees its gang whole or not at all, by the load generator on a real ResourceManager.

That this proof can fail is shown in test_generator.py, where stock placement hands out gangs in parts.
"""

from __future__ import annotations

import pytest

from benchmarks import generator
from benchmarks.arena import GANG_SCHEDULER, arena
from benchmarks.real import SHIM

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

GANGS, GANG = 500, 8


def test_a_master_that_polls_every_millisecond_never_sees_a_part_of_its_gang(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with arena(tmp_path_factory.mktemp("whole") / "arena", GANG_SCHEDULER, servers=24) as ours:
        done = generator.run(ours.conf, "watch", servers=24, gangs=GANGS, gang=GANG, poll_us=1000, wait_s=120)
        assert done.exit_code == generator.HELD, f"{done.events}\n{done.complaints}\nlogs: {ours.cluster.folder}"
        assert done.event("watch")["partial_views"] == 0
        assert done.event("ask_to_seen")["count"] == GANGS
        counters = ours.bean(SHIM)
        assert counters["ContainersCommitted"] == GANGS * GANG
        assert counters["DecisionsCommitted"] == GANGS
        assert counters["ContainersRolledBack"] == 0
