"""Which addresses never leave this machine: loopback and Unix sockets. Everything else needs TLS."""

import ipaddress

UNIX = "unix:"


def is_unix(target: str) -> bool:
    """Tell whether a target, as gRPC names it, is a Unix socket."""
    return target.startswith(UNIX)


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine by its loopback address; a name other than ``localhost`` is not looked up."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_local(target: str) -> bool:
    """Tell whether ``host:port`` or ``unix:/path`` is on this machine alone."""
    return is_unix(target) or is_loopback(target.rpartition(":")[0])


def unix_path(target: str) -> str:
    """Return the path of ``unix:/path``; ValueError if it is none that is absolute and fits in an address."""
    path = target.removeprefix(UNIX)
    path_bytes_max = 107
    if not is_unix(target) or not path.startswith("/") or "\0" in path or len(path.encode()) > path_bytes_max:
        raise ValueError(
            f"must be unix: and an absolute path of at most {path_bytes_max} bytes, for example unix:/run/ygs.sock"
        )
    return path


def plain_refusal(target: str) -> str:
    """Say why nothing goes to an address in plain text; empty where that is right."""
    if is_local(target):
        return ""
    return f"{target} is neither loopback nor a Unix socket: it needs TLS, so name a certificate, its key and the authority"
