"""Makes an authority and certificates, for tests and for clusters whose operators have no authority of their own."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from contextlib import suppress
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from yarn_gpu_sched.identity.certificates import (
    AUTHORITY_FILE,
    BadCertificate,
    TlsFiles,
    certificates_of,
    read_file,
    utc_now,
)
from yarn_gpu_sched.identity.roles import Identity, Role

AUTHORITY_KEY_FILE = "authority-key.pem"
DAYS_MAX = 36_500
COMMON_NAME_CHARACTERS_MAX = 64
EARLY = dt.timedelta(minutes=5)
"""A certificate is valid from a little before it is made, because clocks differ."""


class Wanted(msgspec.Struct, frozen=True):
    """A certificate to be made. ``hosts`` (names and addresses) are those at which others may find its owner.

    It is valid for ``days`` from ``begins`` (default: now).
    """

    identity: Identity
    hosts: tuple[str, ...] = ()
    days: float = 90.0
    begins: dt.datetime | None = None


def make_authority(
    folder: Path, *, name: str = "ygs test authority", days: float = 3_650.0, begins: dt.datetime | None = None
) -> x509.Certificate:
    """Make a key and a certificate that signs others, and write them into a folder. Raises `BadCertificate`, OSError."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _dated(days, begins)
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / AUTHORITY_KEY_FILE, _pem(key), 0o600)
    _write(folder / AUTHORITY_FILE, certificate.public_bytes(Encoding.PEM), 0o644)
    return certificate


def issue(authority: Path, out: Path, wanted: Wanted) -> x509.Certificate:
    """Make a key and a certificate, signed by the authority of a folder, and write them into another with that authority's.

    Raises `BadCertificate`, OSError.
    """
    signer_key, signer = _signer(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.UniformResourceIdentifier(wanted.identity.uri), *map(_host, wanted.hosts)]
    certificate = (
        _dated(wanted.days, wanted.begins)
        .subject_name(_subject(str(wanted.identity)))
        .issuer_name(signer.subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_purposes(wanted)), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    out.mkdir(parents=True, exist_ok=True)
    files = TlsFiles.of_folder(out)
    _write(files.key, _pem(key), 0o600)
    _write(files.authority, signer.public_bytes(Encoding.PEM), 0o644)
    _write(files.certificate, certificate.public_bytes(Encoding.PEM), 0o644)
    return certificate


def _purposes(wanted: Wanted) -> list[x509.ObjectIdentifier]:
    """Say what it is for: everybody calls; only who may be found at a host is called."""
    called = wanted.hosts or wanted.identity.role is Role.SERVICE
    return [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if called else [])]


def _signer(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    certificate_path, key_path = folder / AUTHORITY_FILE, folder / AUTHORITY_KEY_FILE
    certificate = certificates_of(read_file(certificate_path), certificate_path)[0]
    pem = read_file(key_path)
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise BadCertificate(f"{key_path}: must be an unencrypted key in PEM") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise BadCertificate(f"{key_path}: must be the key of {certificate_path}, and is another's")
    return key, certificate


def _dated(days: float, begins: dt.datetime | None) -> x509.CertificateBuilder:
    if not 0 < days <= DAYS_MAX:
        raise BadCertificate(f"days {days:g} must be above 0 and at most {DAYS_MAX}")
    begins = begins or utc_now() - EARLY
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + dt.timedelta(days=days))
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:COMMON_NAME_CHARACTERS_MAX])])


def _host(text: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(text))
    if not text.isascii() or not text or set(text) & set(" /:*"):
        raise BadCertificate(f"host {text!a} must be a host name or an address, without a port")
    return x509.DNSName(text)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file whole, by rename; nobody else can read a key meanwhile."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(fd)
    new.replace(path)
