"""Which addresses never leave this machine."""

import pytest

from yarn_gpu_sched.identity import is_local, is_loopback, plain_refusal, unix_path


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1:7433",
        "127.9.9.9:1",
        "localhost:7433",
        "LOCALHOST:1",
        "[::1]:7433",
        "[::ffff:127.0.0.1]:1",
        "unix:/a/b",
    ],
)
def test_local(target: str) -> None:
    assert is_local(target)
    assert plain_refusal(target) == ""


@pytest.mark.parametrize(
    "target",
    [
        "10.0.0.1:7433",
        "0.0.0.0:7433",
        "[::]:7433",
        "scheduler:7433",
        "localhost.example.org:1",
        "127.0.0.1.example.org:1",
        "[fd00::1]:1",
    ],
)
def test_everything_else_leaves_it(target: str) -> None:
    assert not is_local(target)
    assert plain_refusal(target).startswith(f"{target} is neither loopback nor a Unix socket: it needs TLS")


def test_a_name_is_not_looked_up() -> None:
    assert not is_loopback("ip6-localhost")


@pytest.mark.parametrize("target", ["unix:relative", "unix:", "unix:/a\0b", "/a/b", "unix:/" + "a" * 107])
def test_what_is_no_socket_s_path(target: str) -> None:
    with pytest.raises(ValueError, match="must be unix: and an absolute path of at most 107 bytes"):
        unix_path(target)


def test_a_path_as_long_as_may_be() -> None:
    assert unix_path("unix:/" + "a" * 106) == "/" + "a" * 106
