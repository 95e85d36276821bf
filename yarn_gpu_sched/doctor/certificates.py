"""Check of certificates: whether the files of a folder belong together, name somebody, and last."""

from __future__ import annotations

import datetime as dt
import stat
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, fault, ok, warning
from yarn_gpu_sched.doctor.installation import Installation

EXPIRES_SOON = dt.timedelta(days=14)
ROLES = ("resource-manager", "monitor", "operator", "reader", "submitter", "service")
FILE_BYTES_MAX = 1 << 20
_CERTIFICATE, _KEY, _AUTHORITY = "certificate.pem", "key.pem", "authority.pem"
_ISSUE = "issue another: ygs certs issue {folder} --authority DIR --role ROLE --name NAME --replace"


def certificates(installation: Installation) -> Iterator[Finding]:
    """Look at each folder that was named."""
    folders = installation.places.certificates
    if not folders:
        raise CannotLook(
            "no folder of certificates was named; loopback and Unix sockets need none",
            "on each machine, name those of its daemons: --certificates FOLDER",
        )
    for folder in folders:
        yield from _of_folder(folder)


def _of_folder(folder: Path) -> Iterator[Finding]:
    do = _ISSUE.format(folder=folder)
    try:
        own = _certificates(folder / _CERTIFICATE)[0]
        trusted = _certificates(folder / _AUTHORITY)
        key = load_pem_private_key(_read(folder / _KEY), password=None).public_key()
    except (ValueError, TypeError) as error:
        yield fault(f"{folder}: {error}", do)
        return
    if _encoded(key) != _encoded(own.public_key()):
        yield fault(f"{folder / _KEY} is not the key of {folder / _CERTIFICATE}", do)
    if not any(_issued(own, one) for one in trusted):
        yield fault(f"{folder / _CERTIFICATE} was not issued by {folder / _AUTHORITY}", do)
    identity = _identity(own)
    if identity is None:
        yield fault(f"{folder / _CERTIFICATE} has no URI ygs://ROLE/NAME of a known role: it is nobody's", do)
    if (folder / _KEY).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield warning(f"{folder / _KEY} may be read by others than its owner", f"chmod 600 {folder / _KEY}")
    lasting = [_lasts(folder / _CERTIFICATE, own, do)]
    lasting += [_lasts(folder / _AUTHORITY, one, "make a new authority: ygs certs authority DIR") for one in trusted]
    bad = [one for one in lasting if one is not None]
    yield from bad
    if identity and not bad:
        yield ok(f"{folder}: {identity}, until {own.not_valid_after_utc:%Y-%m-%d}")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(found) > FILE_BYTES_MAX:
        raise ValueError(f"{path.name} has more than {FILE_BYTES_MAX} bytes")
    return found


def _certificates(path: Path) -> list[x509.Certificate]:
    try:
        found = x509.load_pem_x509_certificates(_read(path))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if not found:
        raise ValueError(f"{path.name} has no certificate")
    return found


def _encoded(key: object) -> bytes:
    found: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined] # every kind of public key has it
    return found


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _identity(certificate: x509.Certificate) -> str | None:
    """Return ROLE/NAME; None: it names nobody, or more than one."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None
    uris = [uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.startswith("ygs:")]
    if len(uris) != 1:
        return None
    role, _, name = uris[0].removeprefix("ygs://").partition("/")
    return f"{role}/{name}" if role in ROLES and name else None


def _lasts(path: Path, certificate: x509.Certificate, do: str) -> Finding | None:
    now = dt.datetime.now(dt.UTC)
    until = certificate.not_valid_after_utc
    if certificate.not_valid_before_utc > now:
        return fault(
            f"{path} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on only",
            "set this machine's clock",
        )
    if until <= now:
        return fault(f"{path} expired on {until:%Y-%m-%d %H:%M} UTC", do)
    if until - now < EXPIRES_SOON:
        return warning(f"{path} expires in {(until - now).days} days, on {until:%Y-%m-%d %H:%M} UTC", do)
    return None
