"""Only loopback, until callers are authenticated."""

import pytest

from yarn_gpu_sched.service.addresses import loopback


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("127.0.0.1:7433", "127.0.0.1:7433"),
        ("localhost:0", "127.0.0.1:0"),
        ("127.8.9.10:1", "127.8.9.10:1"),
        ("[::1]:7433", "[::1]:7433"),
        ("::1:7433", "[::1]:7433"),
    ],
)
def test_loopback_is_taken(text: str, shown: str) -> None:
    assert str(loopback(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:7433", "[::]:7433", "10.0.0.1:7433", "192.168.1.1:1", "example.org:80", "::ffff:10.0.0.1:80", "*:7433"],
)
def test_any_other_address_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a loopback address, 127\.0\.0\.1 or \[::1\], not ") as caught:
        loopback(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "7433", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:٣"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        loopback(text)
