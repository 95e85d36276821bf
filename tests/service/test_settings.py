"""Settings: flags over environment over a file over defaults; what is wrong is named with its place."""

from pathlib import Path
from typing import Any

import pytest

from yarn_gpu_sched.engine import EngineSettings
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.policy import POLICIES, Preemptive, policy_named
from yarn_gpu_sched.service import BadSettings, Problem, Settings, check_config, load_settings
from yarn_gpu_sched.service.server import _engine_settings
from yarn_gpu_sched.service.settings_files import FILE_BYTES_MAX


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ygs.toml"


def problems(file: Path | None, **flags: object) -> list[Problem]:
    with pytest.raises(BadSettings) as caught:
        load_settings(file, **flags)
    return caught.value.problems


def test_defaults() -> None:
    settings = load_settings()
    assert settings.listen == "127.0.0.1:7433"
    assert (settings.binding_dir, settings.recorder_dir, settings.metrics_listen) == ("", "", "")


def test_flags_go_before_environment_before_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('listen = "127.0.0.1:1"\nlog_level = "debug"\nwatchers_max = 7\n')
    monkeypatch.setenv("YGS_LISTEN", "127.0.0.1:2")
    monkeypatch.setenv("YGS_LOG_LEVEL", "warning")
    settings = load_settings(file, listen="127.0.0.1:3", log_level=None)
    assert (settings.listen, settings.log_level, settings.watchers_max) == ("127.0.0.1:3", "warning", 7)


def test_variables_of_other_parts_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YGS_CACHE", "/somewhere")
    load_settings()


def test_flags_may_be_texts() -> None:
    settings = load_settings(watchers_max="9", am_share="0.5")
    assert (settings.watchers_max, settings.am_share) == (9, 0.5)


def test_every_default_reaches_the_engine() -> None:
    assert _engine_settings(Settings()) == EngineSettings(
        policy="philly", relax_after_s=150.0, preemption=Mode.OBSERVE, reserve_after_s=1_800.0
    )


def test_every_setting_reaches_the_engine() -> None:
    same: dict[str, Any] = {
        "am_share": 0.2,
        "cpu_share": 0.3,
        "backoff_min_s": 1,
        "backoff_max_s": 2,
        "ended_jobs_max": 5,
        "repair_hold_s": 6,
        "requeue_after_s": 7,
        "gang_hold_s": 30,
        "gather_s": 8,
        "relax_after_s": 9,
        "relax_after_max_s": 10,
        "preempt_threshold_percent": 95,
        "preempt_after_s": 11,
        "preempt_grace_s": 12,
        "preempt_hold_s": 13,
        "preempt_min_run_s": 14,
        "preempt_spare_after": 15,
        "preempt_victims_per_minute": 17,
        "preempt_pause_s": 18,
        "reserve_after_s": 19,
        "policy": "sjf",
    }
    given = Settings(**same, cpu_servers="service", preemption="on")
    wanted = EngineSettings(**same, place_on_cpu_servers=True, preemption=Mode.ON)
    assert _engine_settings(given) == wanted


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_set_but_those_that_preempt_by_their_own_rules(policy: str) -> None:
    """Law 7 says who may be preempted in a live cluster, and these do not ask for it."""
    if isinstance(policy_named(policy), Preemptive):
        with pytest.raises(BadSettings, match="must be philly, fifo, fifo_strict or sjf"):
            load_settings(policy=policy)
    else:
        assert load_settings(policy=policy).policy == policy


def test_every_wrong_key_is_named_at_once_with_line_value_and_what_would_be_right(file: Path) -> None:
    file.write_text('# ours\nlisten = "0.0.0.0:7433"\n\nam_share = 1.5\n  colour = "red"\n[tls]\nkey = 1\n')
    found = {problem.key: problem for problem in check_config(file)}
    assert list(found) == ["listen", "am_share", "colour", "tls"]
    assert [problem.line for problem in found.values()] == [2, 4, 5, 6]
    assert {problem.file for problem in found.values()} == {str(file)}
    assert found["listen"].value == "'0.0.0.0:7433'"
    assert found["listen"].right.startswith("must be a loopback address, 127.0.0.1 or [::1], not 0.0.0.0")
    assert found["am_share"].right == "must be 0 to 1"
    assert found["colour"].right.startswith("is not a setting; known: am_share, ")
    assert str(found["am_share"]) == f"{file}:4: am_share = 1.5: must be 0 to 1"


WRONG = {
    'listen = "127.0.0.1"': "must be host:port",
    'listen = "127.0.0.1:65536"': "must be host:port",
    'listen = "example.org:7433"': "must be a loopback address",
    "listen = 7433": "must be host:port",
    'metrics_listen = "[::]:9433"': "must be a loopback address",
    'monitor_listen = "0.0.0.0:7434"': "without tls_certificate, tls_key and tls_authority: what is not encrypted stays",
    'listen = "unix:relative"': "must be unix: and an absolute path",
    'monitor_listen = "unix:/a/b"': "must be host:port",
    'tls_key = "/k.pem"': "tls_key must come with tls_certificate and tls_authority: of the three all or none",
    "tls_on_loopback = true": "tls_on_loopback must be false without tls_certificate, tls_key, tls_authority",
    'audit_log = "audit.jsonl"': "must be an absolute path",
    "audit_files_max = 1": "must be 2 to 1000",
    'binding_dir = "bindings"': "must be an absolute path",
    'recorder_dir = "./record"': "must be an absolute path",
    'binding_dir = "/bind\\u0000ings"': "must be a path without NUL",
    'recorder_dir = "/\\u0000"': "must be a path without NUL",
    "recorder_files_max = 1": "must be 2 to 10000",
    'log_level = "loud"': "must be debug, info, warning or error",
    "watchers_max = 0": "must be 1 to 128",
    'preemption = "armed"': "must be off, observe or on",
    "preempt_threshold_percent = 89": "must be 90 to 100",
    "preempt_hold_s = 0": "must be 1 to 3600",
    "preempt_victims_per_minute = 0": "must be 1 to 10000",
    "reserve_after_s = 0.5": "must be 0, or 1 to 31536000",
    "reserve_after_s = 31536001": "must be 0, or 1 to 31536000",
    'state_dir = "state"': "must be an absolute path",
    'policy = "luck"': "must be philly, fifo, fifo_strict or sjf",
    "relax_after_s = 0.0001": "must be 0, or 0.001 to 86400",
    'cpu_servers = "ours"': "must be stock or service",
    "stop_grace_s = -1": "must be 0 to 60",
    "am_share = nan": "must be 0 to 1",
    'audit_every_events = "often"': "must be 0 to",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_in_a_file(file: Path, line: str) -> None:
    file.write_text(f"\n{line}\n")
    (problem,) = check_config(file)
    assert (problem.line, problem.key) == (2, line.partition(" ")[0])
    assert WRONG[line] in problem.right


@pytest.mark.parametrize("value", [0, 1, 31_536_000])
def test_reservations_come_never_or_within_a_bound(value: int) -> None:
    assert load_settings(reserve_after_s=value).reserve_after_s == value


TLS = 'tls_certificate = "/c.pem"\ntls_key = "/k.pem"\ntls_authority = "/a.pem"\n'


@pytest.mark.parametrize("key", ["listen", "monitor_listen", "metrics_listen"])
def test_with_certificates_it_may_be_listened_anywhere_and_tls_is_spoken_there(file: Path, key: str) -> None:
    file.write_text(f'{key} = "0.0.0.0:7433"\n{TLS}')
    assert check_config(file) == []
    settings = load_settings(file)
    addresses = {"listen": settings.address, "monitor_listen": settings.monitor_address}
    address = {**addresses, "metrics_listen": settings.metrics_address}[key]
    assert address is not None
    assert settings.has_tls(address)
    file.write_text(f'{key} = "scheduler:7433"\n{TLS}')
    assert "must be a numeric address" in check_config(file)[0].right


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix:/run/ygs.sock", "[::1]:0"])
def test_on_this_machine_there_is_none_unless_it_is_asked_for(file: Path, listen: str) -> None:
    file.write_text(f'listen = "{listen}"\n{TLS}')
    settings = load_settings(file)
    assert not settings.has_tls(settings.address)
    asked = load_settings(file, tls_on_loopback="true")
    assert asked.has_tls(asked.address) is not listen.startswith("unix:")


def test_a_backoff_that_ends_before_it_begins(file: Path) -> None:
    file.write_text("backoff_min_s = 10\nbackoff_max_s = 5\n")
    (problem,) = check_config(file)
    assert (problem.key, problem.line) == ("backoff_max_s", 2)
    assert problem.right == "backoff_max_s must be at least backoff_min_s"


def test_a_file_that_is_no_toml(file: Path) -> None:
    file.write_text("listen = \n")
    (problem,) = check_config(file)
    assert (problem.file, problem.line, problem.right) == (str(file), 1, "must be TOML")


def test_a_file_that_is_no_text(file: Path) -> None:
    file.write_bytes(b'listen = "127.0.0.1:1"\n# \xff\n')
    (problem,) = check_config(file)
    assert (problem.line, problem.right) == (2, "must be TOML in UTF-8")


def test_a_file_that_is_too_large(file: Path) -> None:
    file.write_text("#" * (FILE_BYTES_MAX + 1))
    assert "at most" in check_config(file)[0].right


def test_a_file_that_is_not_there(file: Path) -> None:
    (problem,) = check_config(file)
    assert (problem.file, problem.line, problem.value) == (str(file), 0, "No such file or directory")
    assert problems(file) == [problem]


def test_a_good_file_has_no_problems(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YGS_LISTEN", "the environment does not matter here")
    file.write_text('listen = "localhost:7433"\nbinding_dir = "/run/ygs"\nbackoff_min_s = 1\n')
    assert check_config(file) == []


def test_the_place_of_a_wrong_setting_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("watchers_max = 0\n")
    monkeypatch.setenv("YGS_AM_SHARE", "much")
    found = {problem.key: problem for problem in problems(file, stop_grace_s="long")}
    assert found["watchers_max"].file == str(file)
    assert (found["YGS_AM_SHARE"].file, found["YGS_AM_SHARE"].line) == ("environment", 0)
    assert found["--stop-grace-s"].file == "command line"


def test_control_sequences_in_a_value_are_escaped(file: Path) -> None:
    file.write_text('log_level = "\\u001b[31mred"\n')
    (problem,) = check_config(file)
    assert "\x1b" not in str(problem)
