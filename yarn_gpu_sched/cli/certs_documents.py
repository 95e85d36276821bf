"""What `ygs certs show --json` prints."""

from __future__ import annotations

from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from yarn_gpu_sched.identity import utc_now
from yarn_gpu_sched.identity.certificates import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    certificates_of,
    hosts_of,
    read_file,
    uris_of,
)

CERTIFICATES_MAX = 100
_DAY_S = 86_400


class CertificateDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A certificate: ``uri`` is its identity, null if it has none; times are UTC in RFC 3339."""

    file: str
    uri: str | None
    hosts: tuple[str, ...]
    authority: bool
    issuer: str
    begins: str
    expires: str
    days_left: float


class CertificatesDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ygs certs show --json`: the first 100 certificates of the files, in their order."""

    certificates: tuple[CertificateDocument, ...]


def certificates_document(path: Path) -> CertificatesDocument:
    """Read a PEM file, or a folder's certificate and authority. Raises `BadCertificate`."""
    files = [path / name for name in (CERTIFICATE_FILE, AUTHORITY_FILE)] if path.is_dir() else [path]
    files = [file for file in files if file.exists()] or files
    found = [(file, one) for file in files for one in certificates_of(read_file(file), file)]
    return CertificatesDocument(tuple(_document(file, one) for file, one in found[:CERTIFICATES_MAX]))


def _document(file: Path, one: x509.Certificate) -> CertificateDocument:
    left_s = (one.not_valid_after_utc - utc_now()).total_seconds()
    uris = uris_of(one)
    return CertificateDocument(
        file=str(file),
        uri=" ".join(uris) or None,
        hosts=tuple(hosts_of(one)),
        authority=_is_authority(one),
        issuer=_common_name(one.issuer),
        begins=f"{one.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}",
        expires=f"{one.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
        days_left=round(left_s / _DAY_S, 2),
    )


def _is_authority(one: x509.Certificate) -> bool:
    try:
        return one.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string()
