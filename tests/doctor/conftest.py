"""An installation that answers as it should, for a test to break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.site import Site, healthy


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with healthy("3.4.2", tmp_path) as found:
        yield found
