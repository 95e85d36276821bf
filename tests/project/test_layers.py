"""The rooms are layers: an import upwards, or of a clock by what decides, fails `make lint`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "yarn_gpu_sched"
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")
BOTTOM_TO_TOP = (
    "identity",
    "model",
    "exporter",
    "binding",
    "placement",
    "policy",
    "engine",
    "journal",
    "archive",
    "protocol",
    "failures",
    "replay",
    "service",
    "monitor",
    "client",
    "doctor",
    "embedded",
    "cli",
)


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """Return a package of empty rooms with the project's own contracts."""
    for room in ("", *BOTTOM_TO_TOP):
        (tmp_path / "yarn_gpu_sched" / room).mkdir()
        (tmp_path / "yarn_gpu_sched" / room / "__init__.py").touch()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [str(LINT_IMPORTS), "--no-cache"]
    return subprocess.run(command, check=False, cwd=root, env=environment, capture_output=True, text=True)


def test_contract_lists_the_rooms_in_their_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rooms,) = [contract for contract in contracts if contract["id"] == "rooms"]
    assert tuple(reversed(rooms["layers"])) == BOTTOM_TO_TOP


def test_every_room_is_there_and_says_what_it_holds() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(BOTTOM_TO_TOP)
    for room in BOTTOM_TO_TOP:
        assert re.match(r'^r?"""\S', (PACKAGE / room / "__init__.py").read_text()), room


def test_empty_rooms_keep_the_contracts(skeleton: Path) -> None:
    kept = lint(skeleton)
    assert kept.returncode == 0, kept.stdout + kept.stderr


@pytest.mark.parametrize(
    ("room", "imported", "contract"),
    [
        ("model", "yarn_gpu_sched.policy", "A room imports only from rooms below it"),
        ("engine", "yarn_gpu_sched.protocol", "A room imports only from rooms below it"),
        ("service", "yarn_gpu_sched.embedded", "Production never needs the embedded cluster"),
        ("engine", "time", "Whatever decides has no clock"),
        ("model", "random", "Whatever decides has no clock"),
        ("policy", "os", "Whatever decides has no clock"),
        ("placement", "grpc", "Whatever decides has no clock"),
        ("client", "yarn_gpu_sched.engine", "The client library knows the protocol alone"),
        ("engine", "yarn_gpu_sched.binding", "Whatever decides has no clock"),
        ("binding", "yarn_gpu_sched.model", "The format of binding files knows no other room"),
        ("engine", "yarn_gpu_sched.identity", "Whatever decides has no clock"),
        ("identity", "grpc", "Identities know no connection"),
        ("monitor", "yarn_gpu_sched.engine", "The node monitor does not import the engine"),
    ],
)
def test_forbidden_import_is_seen(skeleton: Path, room: str, imported: str, contract: str) -> None:
    (skeleton / "yarn_gpu_sched" / room / "__init__.py").write_text(f"import {imported}\n")
    broken = lint(skeleton)
    assert broken.returncode == 1
    assert re.search(rf"{contract}.* BROKEN", broken.stdout)


def test_room_that_no_layer_names_is_seen(skeleton: Path) -> None:
    (skeleton / "yarn_gpu_sched" / "attic").mkdir()
    (skeleton / "yarn_gpu_sched" / "attic" / "__init__.py").touch()
    assert lint(skeleton).returncode == 1
