from __future__ import annotations

import socket

import pytest

from yarn_gpu_sched.embedded import ports
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.ports import NAMES, PortLease, free_port, lease_ports


def test_two_leases_share_no_port() -> None:
    first, second = lease_ports(), lease_ports()
    with first.lease, second.lease:
        assert set(first.ports) == set(second.ports) == set(NAMES)
        assert not set(first.ports.values()) & set(second.ports.values())
        assert len(set(first.ports.values())) == len(NAMES)


def only_one_block(monkeypatch: pytest.MonkeyPatch) -> PortLease:
    lease = lease_ports()
    base = min(lease.ports.values())
    monkeypatch.setattr(ports, "_FIRST", base)
    monkeypatch.setattr(ports, "_LAST", base + ports._BLOCK + 1)
    return lease


def test_leased_ports_are_not_given_again_until_the_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    first = only_one_block(monkeypatch)
    with first.lease, pytest.raises(ClusterError, match="no 16 free ports in a row"):
        lease_ports()
    again = lease_ports()
    again.lease.close()
    assert again.ports == first.ports


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.7"])
def test_ports_that_somebody_listens_on_are_not_taken(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    lease = only_one_block(monkeypatch)
    lease.lease.close()
    with socket.socket() as listener:
        listener.bind((address, lease.ports["nm_rpc"]))
        listener.listen()
        with pytest.raises(ClusterError):
            lease_ports()
    lease_ports().lease.close()


def test_a_single_port_is_free_and_none_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    assert port < ports._FIRST
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        monkeypatch.setattr(ports, "_SINGLE", range(port, port + 1))
        monkeypatch.setattr(ports, "_TRIES_MAX", 1)
        with pytest.raises(ClusterError, match="none of 1 ports"):
            free_port()
    assert free_port() == port
