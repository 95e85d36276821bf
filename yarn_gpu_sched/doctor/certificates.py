"""Check of certificates: whether the files of a folder belong together, name somebody, and last."""

from __future__ import annotations

import datetime as dt
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from cryptography import x509

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, fault, ok, unseen, warning
from yarn_gpu_sched.doctor.installation import TLS_KEYS, Installation
from yarn_gpu_sched.identity import BadCertificate, BadIdentity, Identity
from yarn_gpu_sched.identity.certificates import certificates_of, identity_of, is_issued_by, key_fits, read_file

EXPIRES_SOON = dt.timedelta(days=14)


class Files(msgspec.Struct, frozen=True):
    """Files that belong together, whose they are to be (empty: anybody's), and what to do for others."""

    certificate: Path
    key: Path
    authority: Path
    role: str = ""
    do: str = ""


def certificates(installation: Installation) -> Iterator[Finding]:
    """Look at each folder that was named, and at what the ResourceManager of this machine uses."""
    asked = [_of_folder(folder) for folder in installation.places.certificates]
    rm, elsewhere = _of_rm(installation)
    asked += rm
    if elsewhere:
        yield unseen(f"{elsewhere} of the ResourceManager is not on this machine", "run ygs doctor there")
    elif not asked:
        yield unseen(
            "no folder of certificates was named; loopback and Unix sockets need none",
            "on each machine, name those of its daemons: --certificates FOLDER",
        )
    for files in asked:
        yield from _looked(files)


def _of_folder(folder: Path) -> Files:
    do = f"issue another: ygs certs issue {folder} --authority DIR --role ROLE --name NAME --replace"
    return Files(folder / "certificate.pem", folder / "key.pem", folder / "authority.pem", do=do)


def _of_rm(installation: Installation) -> tuple[list[Files], str]:
    """Return the ResourceManager's files if they are here, else the name of one that is not."""
    try:
        paths = [Path(name) for key in TLS_KEYS if (name := installation.conf.get(key))]
    except CannotLook:
        return [], ""
    if len(paths) < len(TLS_KEYS):
        return [], ""
    if not _rm_is_here(installation) or not any(path.exists() for path in paths):
        return [], str(paths[0])
    do = "issue another: ygs certs issue OUT --authority DIR --role resource-manager --name NAME"
    certificate, key, authority = paths
    return [Files(certificate, key, authority, "resource-manager", do)], ""


def _rm_is_here(installation: Installation) -> bool:
    """Tell whether the ResourceManager's web address is one of this machine, as far as can be told: such a one can be bound.

    On another machine the same path may hold what is somebody else's.
    """
    try:
        host = urlsplit(installation.rm[0]).hostname or ""
        found = socket.getaddrinfo(installation.web.place_of(host), 0, type=socket.SOCK_DGRAM)
    except CannotLook:
        return True
    except OSError:
        return False
    return any(_is_own(family, where) for family, _, _, _, where in found)


def _is_own(family: int, where: Any) -> bool:  # noqa: ANN401 - an address of any family
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        try:
            one.bind(where)
        except OSError:
            return False
    return True


def _looked(files: Files) -> Iterator[Finding]:
    try:
        own = certificates_of(read_file(files.certificate), files.certificate)[0]
        trusted = certificates_of(read_file(files.authority), files.authority)
        fits = key_fits(read_file(files.key), files.key, own)
    except BadCertificate as error:
        yield fault(str(error), files.do)
        return
    identity = _identity(own)
    wrong = [*_apart(files, own, trusted, fits=fits), *_named_wrongly(files, identity), *_spent(files, own, trusted)]
    yield from wrong
    if (files.key).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield warning(f"{files.key} may be read by others than its owner", f"chmod 600 {files.key}")
    if not wrong:
        yield ok(f"{files.certificate.parent}: {identity}, until {own.not_valid_after_utc:%Y-%m-%d}")


def _apart(files: Files, own: x509.Certificate, trusted: list[x509.Certificate], *, fits: bool) -> Iterator[Finding]:
    if not fits:
        yield fault(f"{files.key} is not the key of {files.certificate}", files.do)
    if not any(is_issued_by(own, one) for one in trusted):
        yield fault(f"{files.certificate} was not issued by {files.authority}", files.do)


def _named_wrongly(files: Files, identity: Identity | None) -> Iterator[Finding]:
    if identity is None:
        yield fault(f"{files.certificate} has no URI ygs://ROLE/NAME of a known role: it is nobody's", files.do)
    elif files.role and identity.role.value != files.role:
        yield fault(f"{files.certificate} is that of {identity}, should be {files.role}/…", files.do)


def _spent(files: Files, own: x509.Certificate, trusted: list[x509.Certificate]) -> Iterator[Finding]:
    lasting = [_lasts(files.certificate, own, files.do)]
    lasting += [_lasts(files.authority, one, "make a new authority: ygs certs authority DIR") for one in trusted]
    yield from (one for one in lasting if one is not None)


def _identity(certificate: x509.Certificate) -> Identity | None:
    """Return whom it names; None: nobody, or more than one."""
    try:
        return identity_of(certificate)
    except BadIdentity:
        return None


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
