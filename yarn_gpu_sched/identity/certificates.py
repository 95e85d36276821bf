"""Reads what a process presents and trusts: its certificate, the key, and the authority, three PEM files."""

from __future__ import annotations

import datetime as dt
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from yarn_gpu_sched.identity.roles import SCHEME, BadIdentity, Identity, parse_uri

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

CERTIFICATE_FILE = "certificate.pem"
KEY_FILE = "key.pem"
AUTHORITY_FILE = "authority.pem"
FILE_BYTES_MAX = 1 << 20
KNOWN_MAX = 8_192
_UNREADABLE = (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError)


class BadCertificate(ValueError):  # noqa: N818 - a name that says what is wrong
    """A file cannot be used; the text names it and says what would be right, in one sentence."""


class Material(msgspec.Struct, frozen=True):
    """What was read of three files that belong together, as PEM, and what it says.

    ``expires`` is of the certificate, ``authority_expires`` of what is trusted: the first that does.
    """

    certificate: bytes
    key: bytes
    authority: bytes
    identity: Identity | None
    expires: dt.datetime
    authority_expires: dt.datetime


class TlsFiles(msgspec.Struct, frozen=True):
    """Paths of a certificate (with what leads to its authority, if need be), its key and the authorities that are trusted."""

    certificate: Path
    key: Path
    authority: Path

    @staticmethod
    def of_folder(folder: Path) -> TlsFiles:
        """Name the files of a folder that `ygs certs issue` made."""
        return TlsFiles(folder / CERTIFICATE_FILE, folder / KEY_FILE, folder / AUTHORITY_FILE)

    @property
    def paths(self) -> tuple[Path, Path, Path]:
        """All three."""
        return self.certificate, self.key, self.authority

    def read(self) -> Material:
        """Read all three, and check that the key is the certificate's; raises `BadCertificate`."""
        certificate, key, authority = (read_file(path) for path in self.paths)
        own = certificates_of(certificate, self.certificate)[0]
        trusted = certificates_of(authority, self.authority)
        if not key_fits(key, self.key, own):
            raise BadCertificate(f"{self.key}: must be the key of {self.certificate}, and is another's")
        try:
            identity = identity_of(own)
        except BadIdentity as bad:
            raise BadCertificate(f"{self.certificate}: {bad}") from None
        expires = min(one.not_valid_after_utc for one in trusted)
        return Material(certificate, key, authority, identity, own.not_valid_after_utc, expires)


def read_file(path: Path) -> bytes:
    """Read a file of a bounded size; raises `BadCertificate`."""
    try:
        with path.open("rb") as file:
            found = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadCertificate(f"{path}: cannot be read: {error.strerror}") from None
    if len(found) > FILE_BYTES_MAX:
        raise BadCertificate(f"{path}: must have at most {FILE_BYTES_MAX} bytes")
    return found


def certificates_of(pem: bytes, path: Path) -> list[x509.Certificate]:
    """Read one certificate or more; raises `BadCertificate`."""
    try:
        found = x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise BadCertificate(f"{path}: must be one certificate or more in PEM") from None
    if not found:
        raise BadCertificate(f"{path}: must be one certificate or more in PEM, and has none")
    return found


def key_fits(pem: bytes, path: Path, certificate: x509.Certificate) -> bool:
    """Tell whether a key is a certificate's; raises `BadCertificate` if it is no key."""
    return _encoded(_public_key_of(pem, path)) == _encoded(certificate.public_key())


def _public_key_of(pem: bytes, path: Path) -> PublicKeyTypes:
    try:
        return load_pem_private_key(pem, password=None).public_key()
    except (ValueError, TypeError):
        raise BadCertificate(f"{path}: must be an unencrypted key in PEM") from None


def _encoded(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def uris_of(certificate: x509.Certificate) -> list[str]:
    """List the URIs of this product that a certificate has, in whatever case they name it."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except _UNREADABLE:
        return []
    return [
        uri for uri in names.get_values_for_type(x509.UniformResourceIdentifier) if uri.lower().startswith(f"{SCHEME}:")
    ]


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """List the host names and addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except _UNREADABLE:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def identity_of(certificate: x509.Certificate) -> Identity | None:
    """Say whom a certificate names; None if it has no URI of ours. Raises `BadIdentity`, also if it names two."""
    uris = uris_of(certificate)
    if len(uris) > 1:
        raise BadIdentity(f"the certificate names {len(uris)} identities, must be one: {', '.join(uris)[:200]!a}")
    return parse_uri(uris[0]) if uris else None


class Presented(msgspec.Struct, frozen=True):
    """What a caller's certificate says; ``identity`` None: ``fault`` says why it names nobody."""

    identity: Identity | None
    expires: dt.datetime
    fault: str = ""


@functools.lru_cache(KNOWN_MAX)
def presented(pem: bytes) -> Presented:
    """Read a certificate that a caller proved to have; what cannot be read names nobody."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        identity = identity_of(certificate)
    except (BadIdentity, ValueError) as error:
        return Presented(None, dt.datetime.max.replace(tzinfo=dt.UTC), str(error))
    fault = "" if identity else f"the certificate has no URI {SCHEME}://ROLE/NAME"
    return Presented(identity, certificate.not_valid_after_utc, fault)


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Tell whether an authority signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def utc_now() -> dt.datetime:
    """Return the time by which certificates expire: that of the wall clock."""
    return dt.datetime.now(dt.UTC)
