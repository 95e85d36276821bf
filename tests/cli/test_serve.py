import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.terminal import run_in_terminal
from yarn_gpu_sched.cli import ygs

NO_SETTINGS = dict.fromkeys(("YGS_LISTEN", "YGS_CONFIG", "YGS_AM_SHARE", "YGS_LOG_LEVEL"))


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(ygs, arguments, env={**NO_SETTINGS, **environment})


def settings(*arguments: str, **environment: str) -> dict[str, object]:
    result = run("config", "show", "--json", *arguments, **environment)
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.output)["settings"]
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "service.toml"
    path.write_text('listen = "127.0.0.1:7000"\nam_share = 0.2\n')
    return path


def test_flags_go_before_the_environment_before_the_file(file: Path) -> None:
    assert settings("--config", str(file))["listen"] == "127.0.0.1:7000"
    assert settings(YGS_CONFIG=str(file))["am_share"] == 0.2
    assert settings("--config", str(file), YGS_LISTEN="127.0.0.1:7001")["listen"] == "127.0.0.1:7001"
    flag = settings("--config", str(file), "--listen", "127.0.0.1:7002", YGS_LISTEN="127.0.0.1:7001")
    assert (flag["listen"], flag["am_share"]) == ("127.0.0.1:7002", 0.2)
    assert settings()["listen"] == "127.0.0.1:7433"


def test_what_is_shown_is_a_settings_file(tmp_path: Path) -> None:
    shown = run("config", "show", "--am-share", "0.25", "--log-level", "debug")
    path = tmp_path / "shown.toml"
    path.write_text(shown.output)
    assert run("config", "check", str(path)).exit_code == 0
    assert settings("--config", str(path)) == settings("--am-share", "0.25", "--log-level", "debug")


def test_a_good_file_is_all_right(file: Path) -> None:
    result = run("config", "check", str(file))
    assert (result.exit_code, result.output) == (0, f"{file}: all right\n")
    assert run("config", "check", YGS_CONFIG=str(file)).exit_code == 0


def test_all_that_is_wrong_is_named_with_file_line_key_value_and_what_is_right(file: Path) -> None:
    file.write_text('listen = "0.0.0.0:7433"\n\nam_share = 7\nnonsense = 1\n')
    result = run("config", "check", str(file))
    assert result.exit_code == 6
    assert f"{file}:1: listen" in result.output
    assert f"{file}:3: am_share = 7: must be 0 to 1" in result.output
    assert f"{file}:4: nonsense" in result.output


@pytest.mark.parametrize("command", [("serve",), ("config", "show"), ("config", "check")], ids=" ".join)
def test_wrong_settings_of_the_environment_are_named_too(command: tuple[str, ...]) -> None:
    result = run(*command, YGS_AM_SHARE="lots")
    assert result.exit_code == 6
    assert "environment" in result.output
    assert "YGS_AM_SHARE" in result.output


def test_wrong_settings_end_a_real_process_with_six() -> None:
    ended = run_in_terminal("serve", "--listen", "192.0.2.1:7433")
    assert ended.exit_code == 6
    assert "loopback" in ended.shown
    assert "Traceback" not in ended.shown


def test_a_file_with_control_sequences_is_shown_clean(file: Path) -> None:
    file.write_bytes(b'log_level = "\\u001b[31m\\u202e"\n')
    result = run("config", "check", str(file))
    assert result.exit_code == 6
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output
