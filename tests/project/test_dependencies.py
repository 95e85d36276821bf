"""The lock files pin what setup.cfg asks for, by hash, and name no address."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("runtime.lock", "dev.lock", "spark.lock")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return {canonicalize_name(package): version for package, version, _ in PIN.findall(text)}


def declared(section: str, key: str) -> list[Requirement]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser[section][key].splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("%(")]


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_hashes(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert len(pins(name)) == len(re.findall(r"^\S+==", text, re.MULTILINE)) > 0


@pytest.mark.parametrize("name", LOCKS)
def test_no_address_in_a_lock_file(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", text)


def test_no_address_in_the_lock_of_the_protocol_tools() -> None:
    packages = json.loads((ROOT / "proto" / "package-lock.json").read_text())["packages"]
    assert packages
    assert not any("resolved" in package for package in packages.values())
    assert all("integrity" in package for path, package in packages.items() if path)


@pytest.mark.parametrize(
    ("section", "key", "name"),
    [
        ("options", "install_requires", "runtime.lock"),
        ("options", "install_requires", "dev.lock"),
        ("options.extras_require", "test", "dev.lock"),
        ("options.extras_require", "dev", "dev.lock"),
    ],
)
def test_pins_lie_in_the_declared_ranges(section: str, key: str, name: str) -> None:
    pinned = pins(name)
    for requirement in declared(section, key):
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} does not admit {version}"


def test_production_runs_what_the_tests_ran() -> None:
    assert pins("runtime.lock").items() <= pins("dev.lock").items()
