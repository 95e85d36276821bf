import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.real_service import real_service
from tests.client.scripted import WAIT_S

DOCUMENT = Path(__file__).parents[2] / "docs" / "client.md"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    with real_service(tmp_path) as address:
        yield address


def documented(name: str) -> str:
    found = re.search(rf"```python {name}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"docs/client.md has no example {name!r}"
    return found[1]


def run(program: str, target: str, folder: Path) -> str:
    path = folder / "example.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path), target],
        capture_output=True,
        text=True,
        timeout=WAIT_S * 3,
        check=False,
        env={"PYTHONPATH": str(DOCUMENT.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_complete_program_places_a_gang(target: str, tmp_path: Path) -> None:
    lines = run(documented("example"), target, tmp_path).splitlines()
    placed = {tuple(line.split(maxsplit=2)[1:]) for line in lines}
    assert placed == {(server, gpus) for server in ("server-1", "server-2") for gpus in ("[0, 1]", "[2, 3]")}


def test_the_fake_resource_manager_does_what_is_written(target: str, tmp_path: Path) -> None:
    assert "4 GPUs" in run(documented("fake"), target, tmp_path)
