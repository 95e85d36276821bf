"""Certificates that a test makes: right, nearly over, over, of others, of nobody, unreadable."""

from __future__ import annotations

import datetime as dt
import socket
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.doctor.site import Site
from yarn_gpu_sched.doctor import Result, Verdict
from yarn_gpu_sched.doctor import certificates as files_of_tls

NOW = dt.datetime.now(dt.UTC)
URI = "ygs://monitor/gpu-a1"


class Authority:
    """Issues certificates."""

    def __init__(self, days: float = 365) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
        self.certificate = self.issue(self.key, days=days)

    def issue(
        self, key: ec.EllipticCurvePrivateKey, *, days: float, uris: tuple[str, ...] = (), begins: float = -400
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + dt.timedelta(days=begins))
            .not_valid_after(NOW + dt.timedelta(days=days))
        )
        if uris:
            names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "certificates").mkdir()
    return tmp_path / "certificates"


def write(folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, authority: Authority) -> None:
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "authority.pem").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "key.pem").chmod(0o600)


def made(folder: Path, *, days: float = 100, uris: tuple[str, ...] = (URI,), begins: float = -1) -> Authority:
    authority, key = Authority(), ec.generate_private_key(ec.SECP256R1())
    write(folder, authority.issue(key, days=days, uris=uris, begins=begins), key, authority)
    return authority


def looked(site: Site, folder: Path) -> Result:
    site.places["certificates"] = (folder,)
    return site.look("certificates")


def test_right_ones_are_told_with_whose_they_are_and_until_when(site: Site, folder: Path) -> None:
    made(folder)
    found = looked(site, folder)
    assert found.verdict == Verdict.OK
    until = NOW + dt.timedelta(days=100)
    assert found.findings[0].sentence == f"{folder}: monitor/gpu-a1, until {until:%Y-%m-%d}"


def test_nobody_named_any(site: Site) -> None:
    assert site.look("certificates").verdict == Verdict.UNSEEN


@pytest.mark.parametrize(("days", "verdict"), [(13.5, Verdict.WARNING), (14.5, Verdict.OK), (-0.1, Verdict.FAULT)])
def test_one_that_soon_expires_or_has(site: Site, folder: Path, days: float, verdict: Verdict) -> None:
    made(folder, days=days)
    found = looked(site, folder)
    assert found.verdict == verdict
    if verdict != Verdict.OK:
        assert "certificate.pem expire" in found.findings[0].sentence
        assert f"ygs certs issue {folder}" in found.findings[0].do


def test_one_that_is_not_valid_yet(site: Site, folder: Path) -> None:
    made(folder, begins=1)
    assert "valid from" in looked(site, folder).findings[0].sentence


def test_an_authority_that_soon_expires(site: Site, folder: Path) -> None:
    authority, key = Authority(days=3), ec.generate_private_key(ec.SECP256R1())
    write(folder, authority.issue(key, days=100, uris=(URI,)), key, authority)
    found = looked(site, folder)
    assert found.verdict == Verdict.WARNING
    assert "authority.pem expires in 2 days" in found.findings[0].sentence
    assert "ygs certs authority" in found.findings[0].do


def test_anothers_key(site: Site, folder: Path) -> None:
    made(folder)
    other = ec.generate_private_key(ec.SECP256R1())
    (folder / "key.pem").write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert "is not the key of" in looked(site, folder).findings[0].sentence


def test_another_authority(site: Site, folder: Path) -> None:
    made(folder)
    (folder / "authority.pem").write_bytes(Authority().certificate.public_bytes(Encoding.PEM))
    found = looked(site, folder)
    assert found.verdict == Verdict.FAULT
    assert "was not issued by" in found.findings[0].sentence


@pytest.mark.parametrize(
    "uris",
    [(), ("https://a.test/",), ("ygs://king/ada",), ("ygs://monitor/",), (URI, URI + "x"), (URI, "YGS://operator/x")],
)
def test_one_that_names_nobody(site: Site, folder: Path, uris: tuple[str, ...]) -> None:
    made(folder, uris=uris)
    found = looked(site, folder)
    assert found.verdict == Verdict.FAULT
    assert "ygs://ROLE/NAME" in found.findings[0].sentence


def test_a_key_that_others_may_read(site: Site, folder: Path) -> None:
    made(folder)
    (folder / "key.pem").chmod(0o640)
    found = looked(site, folder)
    assert found.verdict == Verdict.WARNING
    assert found.findings[0].do == f"chmod 600 {folder / 'key.pem'}"


@pytest.mark.parametrize("name", ["certificate.pem", "key.pem", "authority.pem"])
@pytest.mark.parametrize(
    "body", [None, b"", b"\x00\xff", b"x" * (1 << 20) + b"x"], ids=["gone", "empty", "no PEM", "large"]
)
def test_files_that_cannot_be_read(site: Site, folder: Path, name: str, body: bytes | None) -> None:
    made(folder)
    (folder / name).unlink()
    if body is not None:
        (folder / name).write_bytes(body)
    found = looked(site, folder)
    assert found.verdict == Verdict.FAULT
    assert str(folder) in found.findings[0].sentence


def rm_uses(site: Site, folder: Path) -> None:
    for key in ("certificate", "key", "authority"):
        site.set(f"ygs.tls.{key}", str(folder / f"{key}.pem"))


def test_those_of_the_resource_manager_of_this_machine(site: Site, folder: Path) -> None:
    made(folder, uris=("ygs://resource-manager/rm-1",))
    rm_uses(site, folder)
    assert site.look("settings").verdict == Verdict.OK
    assert "resource-manager/rm-1" in site.look("certificates").findings[0].sentence


def test_the_resource_manager_uses_anothers(site: Site, folder: Path) -> None:
    made(folder)
    rm_uses(site, folder)
    found = site.look("certificates")
    assert found.verdict == Verdict.FAULT
    assert "is that of monitor/gpu-a1, should be resource-manager/" in found.findings[0].sentence


def test_those_of_a_resource_manager_elsewhere_are_not_seen(site: Site, folder: Path) -> None:
    rm_uses(site, folder / "nowhere")
    found = site.look("certificates")
    assert found.verdict == Verdict.UNSEEN
    assert "is not on this machine" in found.findings[0].sentence


def test_what_lies_at_the_same_path_where_no_resource_manager_runs_is_not_its(
    site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(folder)
    rm_uses(site, folder)
    assert site.look("certificates").verdict == Verdict.FAULT
    monkeypatch.setattr(files_of_tls, "_is_own", lambda _family, _where: False)
    found = site.look("certificates")
    assert found.verdict == Verdict.UNSEEN
    assert "is not on this machine" in found.findings[0].sentence


def test_an_address_of_this_machine_is_told_from_others() -> None:
    assert files_of_tls._is_own(socket.AF_INET, ("127.0.0.2", 0))
    assert not files_of_tls._is_own(socket.AF_INET, ("192.0.2.1", 0))
