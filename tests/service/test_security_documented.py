"""docs/security.md: its table is the one that is enforced, its reasons are those that are given, its commands work as written."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.client.real_service import WAIT_S
from yarn_gpu_sched.identity import Role
from yarn_gpu_sched.service.permissions import PERMISSIONS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAME, PORT = "scheduler.example.org", "7433"
FOLDERS = {"/etc/yarn-gpu-sched/": "", "/var/lib/yarn-gpu-sched": "state"}


def rows(head: str) -> list[list[str]]:
    table = TEXT.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_table_is_the_one_that_is_enforced() -> None:
    wanted = []
    for path, rule in PERMISSIONS.items():
        service, _, rpc = path.rpartition("/")
        may = [role.value for role in Role if role in rule.roles]
        who = "every role" if len(may) == len(Role) else ", ".join(may)
        audited = "done and refused" if rule.changes else "refused"
        wanted.append([f"`{service.rpartition('.')[2]}/{rpc}`", who, rule.meaning, rule.own or "nothing", audited])
    assert rows("| RPC | who may") == wanted


def test_every_role_is_explained() -> None:
    assert [row[0] for row in rows("| role | who")] == [f"`{role.value}`" for role in Role]


def test_every_act_of_the_audit_log_is_named() -> None:
    source = "".join(path.read_text() for path in (ROOT / "yarn_gpu_sched" / "service").rglob("*.py"))
    acts = set(re.findall(r'\.(?:acted|began)\(\s*"(\w+)"', source)) | {
        "ended",
        "drain",
        "undrain",
        "quarantine",
        "ack",
    }
    (row,) = [row for row in rows("| key | what") if row[0] == "`act`"]
    assert set(re.findall(r"`(\w+)`", row[1])) == acts


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.2", 0))
        return str(one.getsockname()[1])


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Make a folder in which the commands run, with a `ygs` that is this checkout's."""
    tool = tmp_path / "bin" / "ygs"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from yarn_gpu_sched.cli import main; main()" "$@"\n')
    tool.chmod(0o755)
    return tmp_path


def script(here: Path, port: str) -> str:
    """Make one script of all commands, in their order, with names and folders of this machine."""
    (settings,) = re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    for folder, instead in FOLDERS.items():
        settings = settings.replace(folder, f"{here}/{instead}")
    settings = settings.replace(f"0.0.0.0:{PORT}", f"127.0.0.2:{port}")
    (here / "service.toml").write_text(f"{settings}tls_on_loopback = true\n")
    commands = "".join(re.findall(r"^```bash\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
    commands = commands.replace(f"{NAME}:{PORT}", f"127.0.0.2:{port}").replace(NAME, "127.0.0.2")
    started = "ygs serve --config service.toml &\n"
    assert started in commands
    wait = (
        f"echo $! > service.pid; until ygs --service 127.0.0.2:{port} --tls ops jobs 2>/dev/null; do sleep 0.1; done\n"
    )
    return commands.replace(started, f"ygs serve --config service.toml > service.log 2>&1 & {wait}")


@pytest.mark.slow
def test_the_commands_work_as_written(here: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("YGS_")}
    environment = {**clean, "PATH": f"{here}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    try:
        ran = subprocess.run(
            ["/bin/bash", "-eux", "-c", script(here, free_port())],
            check=False,
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
        )
        assert ran.returncode == 0, ran.stderr
    finally:
        end(here / "service.pid")
    assert "names      ygs://service/scheduler" in ran.stdout
    assert "preemption would change from observe to off" in ran.stdout
    log = (here / "service.log").read_text()
    assert '"event": "certificate_taken"' in log
    assert (here / "state" / "audit.jsonl").exists()


def end(pid_file: Path) -> None:
    """End the service that the script began, and wait until it is gone."""
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + WAIT_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
