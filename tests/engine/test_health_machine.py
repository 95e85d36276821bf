"""Random tenants on servers whose GPUs fall ill, vanish, are not free, are taken out, and whose jobs idle.

All that `test_preempting_machine`, `test_reserving_machine` and `test_tenants_machine` require holds here too: law 7 counts only
GPUs that are given out, law 9 knows of no gang that starves because somebody goes on on a broken GPU beside it.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import ClassVar

import pytest

from tests.engine.ill_rules import IllRules
from tests.engine.machines import run
from tests.engine.test_preempting_machine import Preempting
from tests.engine.test_reserving_machine import Reserving
from tests.engine.test_tenants_machine import Tenants


class IllPreempting(IllRules, Preempting):
    """Others are stopped for gangs there."""

    events = 0
    counted: ClassVar[Counter[str]] = Counter()


class IllReserving(IllRules, Reserving):
    """Places are kept for gangs there."""

    counted: ClassVar[Counter[str]] = Counter()


class IllTenants(IllRules, Tenants):
    """Levels, limits and quotas there."""

    events = passes = placed = forbidden = borrowed = 0


@pytest.mark.timeout(600)  # some 10 s of work, on a machine that may be busy
def test_law_7_holds_where_gpus_fall_ill() -> None:
    run(IllPreempting, examples=90, steps=45)
    counted = IllPreempting.counted
    assert min(counted[what] for what in ("begun", "stopped", "warned", "reserved", "ill")) >= 10, counted


@pytest.mark.timeout(600)
def test_places_are_kept_and_all_is_answered_where_gpus_fall_ill() -> None:
    run(IllReserving, examples=20, steps=30)
    counted = IllReserving.counted
    assert min(counted[what] for what in ("made", "kept", "reserved", "unhealthy", "ill")) > 0, counted


@pytest.mark.timeout(600)
def test_levels_and_limits_hold_where_gpus_fall_ill() -> None:
    run(IllTenants, examples=40, steps=40)
    assert min(IllTenants.passes, IllTenants.placed, IllTenants.forbidden) >= 50


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.skipif("YGS_SOAK" not in os.environ, reason="long: set YGS_SOAK=1")
@pytest.mark.parametrize("machine", [IllPreempting, IllReserving, IllTenants])
def test_all_laws_hold_where_gpus_fall_ill_for_long(machine: type[IllRules]) -> None:
    run(machine, examples=800, steps=80)
