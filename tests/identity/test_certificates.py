"""Roles, names and certificates: what is read, what is made, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

from yarn_gpu_sched.identity import (
    BadCertificate,
    BadIdentity,
    Identity,
    Role,
    TlsFiles,
    Wanted,
    checked_name,
    issue,
    make_authority,
    parse_role,
    parse_uri,
    presented,
    utc_now,
)
from yarn_gpu_sched.identity.certificates import KNOWN_MAX, certificates_of, hosts_of, uris_of

OPERATOR = Identity(Role.OPERATOR, "ops")


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    make_authority(tmp_path / "authority")
    return tmp_path / "authority"


@pytest.mark.parametrize("role", Role)
def test_what_is_written_is_read(role: Role) -> None:
    assert parse_uri(Identity(role, "gpu-1.example.org").uri) == Identity(role, "gpu-1.example.org")


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("", "must be ygs://ROLE/NAME"),
        ("http://operator/ops", "must be ygs://ROLE/NAME"),
        ("ygs://operator", "must be ygs://ROLE/NAME"),
        ("ygs:operator/ops", "must be ygs://ROLE/NAME"),
        ("YGS://operator/ops", "must be ygs://ROLE/NAME"),
        ("ygs://root/ops", "role 'root' is not known; known: resource-manager, monitor, "),
        ("ygs://Operator/ops", "role 'Operator' is not known"),
        ("ygs:///ops", "role '' is not known"),
        ("ygs://operator/", "name '' must have 1 to 253 letters"),
        ("ygs://operator/a/b", "name 'a/b' must have"),
        ("ygs://operator/ops\n", "must have"),
        ("ygs://operator/al ice", "must have"),
        ("ygs://operator/.hidden", "must have"),
        ("ygs://operator/" + "a" * 254, "must have"),
        ("ygs://operator/ä", "must have"),
    ],
)
def test_what_is_no_identity_is_refused_in_one_sentence(uri: str, why: str) -> None:
    with pytest.raises(BadIdentity) as bad:
        parse_uri(uri)
    assert why in str(bad.value)
    assert "\n" not in str(bad.value)


def test_roles_and_names_by_themselves() -> None:
    assert parse_role("monitor") is Role.MONITOR
    assert checked_name("a" * 253) == "a" * 253
    with pytest.raises(BadIdentity):
        parse_role("monitors")


def test_a_certificate_is_what_was_wanted(authority: Path, tmp_path: Path) -> None:
    hosts = ("scheduler.example.org", "10.0.0.7", "fd00::7")
    made = issue(authority, tmp_path / "s", Wanted(Identity(Role.SERVICE, "s"), hosts, days=7))
    files = TlsFiles.of_folder(tmp_path / "s")
    material = files.read()
    assert material.identity == Identity(Role.SERVICE, "s")
    assert dt.timedelta(days=6, hours=23) < material.expires - utc_now() < dt.timedelta(days=7)
    assert made.not_valid_before_utc < utc_now()
    assert (uris_of(made), hosts_of(made)) == (["ygs://service/s"], list(hosts))
    (signer,) = certificates_of(material.authority, files.authority)
    made.verify_directly_issued_by(signer)
    key = load_pem_private_key(material.key, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp256r1"
    assert material.key.startswith(b"-----BEGIN PRIVATE KEY-----"), "PKCS#8, which Java reads too"
    for private in (files.key, authority / "authority-key.pem"):
        assert oct(private.stat().st_mode & 0o777) == "0o600"


def test_only_who_is_called_at_a_host_may_serve(authority: Path, tmp_path: Path) -> None:
    purposes = {}
    for name, hosts in (("plain", ()), ("called", ("gpu-1",))):
        made = issue(authority, tmp_path / name, Wanted(Identity(Role.MONITOR, "gpu-1"), hosts))
        purposes[name] = set(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert purposes["plain"] == {ExtendedKeyUsageOID.CLIENT_AUTH}
    assert purposes["called"] == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}


@pytest.mark.parametrize("host", ["", "a b", "gpu-1:7433", "https://gpu-1", "gpü", "*.example.org"])
def test_what_is_no_host_is_refused(authority: Path, tmp_path: Path, host: str) -> None:
    with pytest.raises(BadCertificate, match="must be a host name or an address"):
        issue(authority, tmp_path / "x", Wanted(OPERATOR, (host,)))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("days", [0, -1, 36_501, float("inf")])
def test_days_are_bounded(authority: Path, tmp_path: Path, days: float) -> None:
    with pytest.raises(BadCertificate, match="must be above 0 and at most 36500"):
        issue(authority, tmp_path / "x", Wanted(OPERATOR, days=days))


def test_an_authority_without_its_key_signs_nothing(authority: Path, tmp_path: Path) -> None:
    make_authority(tmp_path / "other")
    (authority / "authority-key.pem").write_bytes((tmp_path / "other" / "authority-key.pem").read_bytes())
    with pytest.raises(BadCertificate, match=r"authority-key\.pem: must be the key of .*, and is another's"):
        issue(authority, tmp_path / "x", Wanted(OPERATOR))
    (authority / "authority-key.pem").unlink()
    with pytest.raises(BadCertificate, match="cannot be read: No such file or directory"):
        issue(authority, tmp_path / "x", Wanted(OPERATOR))


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        ("certificate.pem", b"", "must be one certificate or more in PEM"),
        (
            "certificate.pem",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "must be one certificate",
        ),
        ("certificate.pem", b"x" * (1 << 20) + b"x", "must have at most 1048576 bytes"),
        ("key.pem", b"nonsense", "must be an unencrypted key in PEM"),
        ("authority.pem", b"nonsense", "must be one certificate or more in PEM"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    authority: Path, tmp_path: Path, file: str, content: bytes, why: str
) -> None:
    issue(authority, tmp_path / "op", Wanted(OPERATOR))
    (tmp_path / "op" / file).write_bytes(content)
    with pytest.raises(BadCertificate) as bad:
        TlsFiles.of_folder(tmp_path / "op").read()
    assert str(bad.value).startswith(f"{tmp_path / 'op' / file}: ")
    assert why in str(bad.value)


def with_uris(*uris: str) -> bytes:
    """Make a certificate by itself with any URIs."""
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris])
    return with_names(names if uris else None)


def with_names(names: x509.ExtensionType | None) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(utc_now()).not_valid_after(utc_now() + dt.timedelta(days=1))
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_whom_a_caller_s_certificate_names() -> None:
    own = presented(with_uris("spiffe://other/thing", "ygs://reader/grafana"))
    assert (own.identity, own.fault) == (Identity(Role.READER, "grafana"), "")
    assert own.expires > utc_now()


@pytest.mark.parametrize(
    ("uris", "fault"),
    [
        ((), "has no URI ygs://ROLE/NAME"),
        (("spiffe://other/thing",), "has no URI ygs://ROLE/NAME"),
        (("ygs://reader/a", "ygs://operator/a"), "names 2 identities, must be one"),
        (("ygs://root/a",), "role 'root' is not known"),
    ],
)
def test_who_is_not_named_once_is_nobody(uris: tuple[str, ...], fault: str) -> None:
    own = presented(with_uris(*uris))
    assert own.identity is None
    assert fault in own.fault


def test_two_names_are_two_in_whatever_case() -> None:
    assert presented(with_uris("ygs://reader/grafana", "YGS://operator/ops")).identity is None
    assert presented(with_uris("YGS://operator/ops")).identity is None


@pytest.mark.parametrize("names", [b"\x30\x02\xa3\x00", b"\x30\x03\x01\x02\x03", b"\xff", b"\x30\x06\x86\x04yg\xff:"])
def test_names_that_cannot_be_read_name_nobody(names: bytes) -> None:
    own = presented(with_names(x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names)))
    assert (own.identity, own.fault) == (None, "the certificate has no URI ygs://ROLE/NAME")


def test_certificates_that_were_read_are_bounded() -> None:
    assert presented.cache_info().maxsize == KNOWN_MAX
    before = presented.cache_info().misses
    for _ in range(3):
        assert presented(b"no certificate").identity is None
    assert presented.cache_info().misses <= before + 1
