"""Settings: flags over environment over file over defaults, and all that is wrong is named at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.monitor.settings import Settings
from yarn_gpu_sched.monitor.settings_files import FILE_BYTES_MAX, BadSettings, load_settings


def test_defaults() -> None:
    settings = Settings()
    assert (settings.read_every_s, settings.push_every_s, settings.end_strays) == (1.0, 5.0, False)
    assert settings.host_name == socket.gethostname()
    assert settings.excluded == ()


def test_flags_go_before_environment_before_file_before_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "monitor.toml"
    file.write_text('host = "file"\nring_max = 100\nsource = "smi"\n')
    monkeypatch.setenv("YGS_MONITOR_HOST", "environment")
    monkeypatch.setenv("YGS_MONITOR_RING_MAX", "200")
    monkeypatch.setenv("YGS_HOST", "not the monitor's")
    settings = load_settings(file, host="flag", ring_max=None)
    assert (settings.host, settings.ring_max, settings.source, settings.read_every_s) == ("flag", 200, "smi", 1.0)


def test_what_is_excluded_is_a_list() -> None:
    assert Settings(exclude=" 0 ,Quadro K620,, GPU-1 ").excluded == ("0", "Quadro K620", "GPU-1")


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("service", "7433", "must be host:port"),
        ("service", "a:0", "must be host:port"),
        ("service", "a:65536", "must be host:port"),
        (
            "service",
            "scheduler:7433",
            "must be on loopback, for example 127.0.0.1, without tls_certificate, tls_key and",
        ),
        ("service", "unix:relative", "must be unix: and an absolute path"),
        ("metrics_listen", "0.0.0.0:9400", "must be on loopback, for example 127.0.0.1, without tls_certificate"),
        ("tls_certificate", "relative", "must be an absolute path"),
        (
            "tls_key",
            "/key.pem",
            "tls_key must come with tls_certificate and tls_authority: of the three all or none",
        ),
        ("host", "a b", "must be a host name"),
        ("state_dir", "relative", "must be an absolute path"),
        ("binding_dir", "/a\0b", "without NUL"),
        ("binding_names", "serial", "must be uuid or index"),
        ("read_every_s", 0, "must be 0.1 to 60"),
        ("push_every_s", 61, "must be 0.1 to 60"),
        ("push_every_s", 0.5, "push_every_s must be at least read_every_s"),
        ("read_timeout_s", float("nan"), "must be 0.1 to 60"),
        ("ring_max", 15, "must be 16 to 1000000"),
        ("simulate", "4xVoodoo", "4xV100"),
        ("scenario", "/s.toml", "must be empty without simulate"),
        ("source", "guess", "must be nvml or smi"),
        ("exclude", "x" * 4_097, "must be UUIDs"),
        ("free_memory_mb_max", -1, "must be 0 to 1000000"),
        ("end_strays", "perhaps", "must be true or false"),
        ("node_manager", "127.0.0.1:8042", "must be the NodeManager's web address"),
        ("metrics_listen", "9400", "must be host:port"),
        ("log_level", "all", "must be debug, info, warning or error"),
    ],
)
def test_each_wrong_value_is_named_with_what_would_be_right(key: str, value: object, right: str) -> None:
    with pytest.raises(BadSettings) as caught:
        load_settings(**{key: value})  # type: ignore[arg-type] # one flag, whichever it is
    (problem,) = caught.value.problems
    assert problem.place == "command line"
    assert problem.key == "--" + key.replace("_", "-")
    assert right in problem.right


def test_with_certificates_it_may_call_and_listen_anywhere() -> None:
    settings = load_settings(
        service="scheduler:7433",
        metrics_listen="0.0.0.0:9400",
        tls_certificate="/c.pem",
        tls_key="/k.pem",
        tls_authority="/a.pem",
    )
    assert settings.tls_files is not None
    assert list(map(str, settings.tls_files.paths)) == ["/c.pem", "/k.pem", "/a.pem"]
    assert load_settings(service="unix:/run/ygs.sock").tls_files is None


def test_all_that_is_wrong_is_named_at_once_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "monitor.toml"
    file.write_text('# mine\nring_max = 3\nunknown = "x"\n')
    monkeypatch.setenv("YGS_MONITOR_SOURCE", "guess")
    with pytest.raises(BadSettings) as caught:
        load_settings(file, read_every_s="often")
    assert sorted(str(caught.value).splitlines()) == sorted(
        [
            "command line: --read-every-s = 'often': must be 0.1 to 60",
            "environment: YGS_MONITOR_SOURCE = 'guess': must be nvml or smi",
            f"{file}:2: ring_max = 3: must be 16 to 1000000",
            f"{file}:3: unknown = 'x': is not a setting; known: " + ", ".join(sorted(Settings.model_fields)),
        ]
    )


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"a = ", "must be TOML"), (b"\xff", "must be TOML in UTF-8"), (b"#" * (FILE_BYTES_MAX + 1), "at most")],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "monitor.toml"
    file.write_bytes(content)
    with pytest.raises(BadSettings, match=what):
        load_settings(file)
    with pytest.raises(BadSettings, match="must be a file that can be read"):
        load_settings(tmp_path / "missing.toml")


def test_the_command_says_what_is_wrong_and_ends_with_6(tmp_path: Path) -> None:
    result = CliRunner().invoke(ygs, ["monitor", "--ring-max", "1", "--config", str(tmp_path / "none")])
    assert result.exit_code == 6
    result = CliRunner().invoke(ygs, ["monitor", "--ring-max", "1"])
    assert result.exit_code == 6
    assert "--ring-max = '1': must be 16 to 1000000" in result.output


def test_a_directory_that_cannot_be_used_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    result = CliRunner().invoke(ygs, ["monitor", "--binding-dir", str(tmp_path), "--simulate", "1xV100"])
    assert result.exit_code == 1
    assert "must be empty" in result.output
