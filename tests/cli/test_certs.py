"""`ygs certs`: what it makes, what it refuses to overwrite, what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.service.certified import Certified
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.cli.exits import ExitCode
from yarn_gpu_sched.identity import Identity, Role, TlsFiles


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(ygs, ["certs", *map(str, arguments)], env={"COLUMNS": "80"})


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    made = run("authority", tmp_path / "authority")
    assert made.exit_code == 0, made.output
    return tmp_path / "authority"


def issue(out: Path, authority: Path, *more: str) -> Result:
    named = ("--role", "operator", "--name", "ops")
    return run("issue", out, "--authority", authority, *(more or named))


def contents(*folders: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for folder in folders for path in sorted(folder.glob("*"))}


def test_a_certificate_is_made_and_shown(authority: Path, tmp_path: Path) -> None:
    host = ("--host", "scheduler.example.org", "--host", "10.0.0.7")
    made = issue(tmp_path / "s", authority, "--role", "service", "--name", "s1", *host, "--days", "3")
    assert made.exit_code == 0, made.output
    assert TlsFiles.of_folder(tmp_path / "s").read().identity == Identity(Role.SERVICE, "s1")
    shown = run("show", tmp_path / "s").output
    for words in (
        "ygs://service/s1",
        "scheduler.example.org 10.0.0.7",
        "ygs test authority",
        "an authority",
        "3.0 days",
    ):
        assert words in shown
    (own, signer) = json.loads(run("show", tmp_path / "s", "--json").output)["certificates"]
    assert (own["uri"], own["authority"], signer["uri"], signer["authority"]) == ("ygs://service/s1", False, None, True)
    assert own["hosts"] == ["scheduler.example.org", "10.0.0.7"]


def test_what_has_expired_is_shown_as_that(tmp_path: Path) -> None:
    expired = Certified(tmp_path).expired(Role.READER)
    assert "expired" in run("show", expired.certificate).output.splitlines()[-2:][0]
    (only,) = json.loads(run("show", expired.certificate, "--json").output)["certificates"]
    assert only["days_left"] < 0


def test_nothing_is_overwritten_unless_it_is_said(authority: Path, tmp_path: Path) -> None:
    assert issue(tmp_path / "a", authority).exit_code == 0
    before = contents(authority, tmp_path / "a")
    for again in (run("authority", authority), issue(tmp_path / "a", authority)):
        assert again.exit_code == ExitCode.REFUSED
        assert "is there already; --replace would take its place" in again.output
    assert contents(authority, tmp_path / "a") == before
    replaced = run("issue", tmp_path / "a", "--authority", authority, "--role", "reader", "--name", "a", "--replace")
    assert replaced.exit_code == 0
    assert TlsFiles.of_folder(tmp_path / "a").read().identity == Identity(Role.READER, "a")


def test_a_dry_run_writes_nothing(authority: Path, tmp_path: Path) -> None:
    before = contents(authority)
    more = ("--role", "reader", "--name", "a", "--dry-run")
    told = [run("authority", tmp_path / "x", "--dry-run"), issue(tmp_path / "y", authority, *more)]
    told.append(run("authority", authority, "--replace", "--dry-run"))
    assert [one.exit_code for one in told] == [0, 0, 0]
    assert f"would write {tmp_path / 'x' / 'authority-key.pem'}" in told[0].output
    assert f"would write {tmp_path / 'y' / 'key.pem'}" in told[1].output
    assert f"would replace {authority / 'authority.pem'}" in told[2].output
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "y").exists()
    assert contents(authority) == before


@pytest.mark.parametrize(
    ("more", "code", "why"),
    [
        (("--role", "root", "--name", "a"), ExitCode.USAGE, "'root' is not one of"),
        (("--role", "reader", "--name", "a b"), ExitCode.USAGE, "name 'a b' must have 1 to 253"),
        (("--role", "service", "--name", "s"), ExitCode.USAGE, "--host is missing"),
        (("--role", "reader", "--name", "a", "--days", "0"), ExitCode.USAGE, "--days"),
        (("--role", "reader", "--name", "a", "--host", "a:1"), ExitCode.CONFIGURATION, "must be a host name"),
    ],
)
def test_what_cannot_be_made_is_said(
    authority: Path, tmp_path: Path, more: tuple[str, ...], code: ExitCode, why: str
) -> None:
    refused = issue(tmp_path / "x", authority, *more)
    assert refused.exit_code == code
    assert why in " ".join(refused.output.split())
    assert not (tmp_path / "x").exists()


def test_files_that_cannot_be_used_are_named(authority: Path, tmp_path: Path) -> None:
    missing = issue(tmp_path / "x", tmp_path / "nowhere")
    assert (missing.exit_code, "authority.pem: cannot be read: No such" in missing.output) == (
        ExitCode.CONFIGURATION,
        True,
    )
    assert run("show", authority / "authority-key.pem").exit_code == ExitCode.CONFIGURATION
    assert run("show", tmp_path / "nowhere").exit_code == ExitCode.CONFIGURATION
    same = issue(authority, authority)
    assert same.exit_code == ExitCode.USAGE
    (tmp_path / "file").touch()
    blocked = issue(tmp_path / "file" / "x", authority)
    assert (blocked.exit_code, "Not a directory" in blocked.output) == (ExitCode.FAILED, True)
