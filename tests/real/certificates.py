"""Certificates of the tests' own authorities, and the settings of both ends of the link that name them."""

from __future__ import annotations

import shutil
from pathlib import Path

from yarn_gpu_sched.identity import Identity, Role, TlsFiles, Wanted, issue, make_authority

RESOURCE_MANAGER = "resource-manager"
ROLES = (RESOURCE_MANAGER, "service", "operator")


def make(folder: Path) -> None:
    """Make an authority, and of each role that a cluster needs a certificate that it has signed."""
    make_authority(folder / "authority")
    for role in ROLES:
        present(folder, role, wanted(role))


def wanted(role: str, host: str = "127.0.0.1") -> Wanted:
    """Return what a certificate of a role is to say."""
    return Wanted(Identity(Role(role), "one"), (host,))


def of(folder: Path, who: str) -> TlsFiles:
    """Return where the files of somebody are."""
    return TlsFiles.of_folder(folder / who)


def present(folder: Path, who: str, one: Wanted, authority: str = "authority") -> None:
    """Put a new certificate where somebody's files are, one file after the other, as an operator would."""
    made = folder / "made"
    issue(folder / authority, made, one)
    (folder / who).mkdir(exist_ok=True)
    for name in ("certificate.pem", "key.pem", "authority.pem"):
        shutil.move(made / name, folder / who / name)
    made.rmdir()


def service_settings(folder: Path) -> dict[str, str]:
    """Return the service's settings for TLS on its loopback address."""
    files = of(folder, "service")
    return {
        "YGS_TLS_CERTIFICATE": str(files.certificate),
        "YGS_TLS_KEY": str(files.key),
        "YGS_TLS_AUTHORITY": str(files.authority),
        "YGS_TLS_ON_LOOPBACK": "true",
        "YGS_AUDIT_LOG": str(folder / "audit.jsonl"),
    }


def resource_manager_settings(folder: Path) -> dict[str, str]:
    """Return the shim's keys for TLS."""
    files = of(folder, RESOURCE_MANAGER)
    return {
        "ygs.tls.certificate": str(files.certificate),
        "ygs.tls.key": str(files.key),
        "ygs.tls.authority": str(files.authority),
    }
