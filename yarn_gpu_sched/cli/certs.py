"""`ygs certs`: makes an authority and certificates, and shows what a certificate says (docs/security.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from yarn_gpu_sched.cli.certs_documents import CertificatesDocument, certificates_document
from yarn_gpu_sched.cli.exits import CommandError, ExitCode
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, print_json, text
from yarn_gpu_sched.identity import (
    BadCertificate,
    BadIdentity,
    Identity,
    Role,
    Wanted,
    checked_name,
    issue,
    make_authority,
)
from yarn_gpu_sched.identity.certificates import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE
from yarn_gpu_sched.identity.issuing import AUTHORITY_KEY_FILE, DAYS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

SOON_DAYS = 14
_DAYS = click.FloatRange(0, DAYS_MAX, min_open=True)


def _making(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands that make something take."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Only say which files it would write."),
        click.option("--replace", is_flag=True, help="Take the place of files that are there."),
    ):
        command = option(command)
    return command


@click.group()
def certs() -> None:
    """Make an authority and certificates for TLS, and show them.

    Keys are EC P-256 in PKCS#8, readable by their owner only.
    """


@certs.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--days", type=_DAYS, default=3_650.0, show_default="3650", help="Days for which it is valid.")
@click.option("--name", default="ygs test authority", show_default=True, help="Its common name.")
@_making
def authority(folder: Path, *, days: float, name: str, replace: bool, dry_run: bool) -> None:
    """Make an authority in FOLDER: authority.pem, which everybody trusts, and authority-key.pem, which signs.

    Whoever has the key can be anybody: keep it off the cluster.
    """
    files = [folder / AUTHORITY_FILE, folder / AUTHORITY_KEY_FILE]
    if _announced(files, replace=replace, dry_run=dry_run):
        with_errors(lambda: make_authority(folder, name=name, days=days))
        _wrote(files)


@certs.command("issue")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--authority",
    "signer",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder of the authority.",
)
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True, help="What its owner is.")
@click.option("--name", required=True, help="Who: a monitor's host, a submitter's user, else any name.")
@click.option(
    "--host", "hosts", multiple=True, help="Host name or address at which its owner is called; may be repeated."
)
@click.option("--days", type=_DAYS, default=90.0, show_default="90", help="Days for which it is valid.")
@_making
def issue_certificate(  # noqa: PLR0913 - one for each option
    folder: Path,
    *,
    signer: Path,
    role: str,
    name: str,
    hosts: tuple[str, ...],
    days: float,
    replace: bool,
    dry_run: bool,
) -> None:
    """Make a certificate in FOLDER: certificate.pem, key.pem and authority.pem, as `--tls FOLDER` takes them.

    It names ygs://ROLE/NAME. The service's needs the host names by which it is called (--host).
    """
    files = [folder / CERTIFICATE_FILE, folder / KEY_FILE, folder / AUTHORITY_FILE]
    if role == Role.SERVICE.value and not hosts:
        raise click.UsageError(
            "--host is missing: callers look for the service's host name or address in its certificate"
        )
    try:
        wanted = Wanted(Identity(Role(role), checked_name(name)), hosts, days)
    except BadIdentity as bad:
        raise click.UsageError(str(bad)) from None
    if folder.resolve() == signer.resolve():
        raise click.UsageError("FOLDER must be another than the authority's")
    if _announced(files, replace=replace, dry_run=dry_run):
        with_errors(lambda: issue(signer, folder, wanted))
        _wrote(files)


@certs.command()
@click.argument("path", type=click.Path(path_type=Path))
@as_json
def show(path: Path, *, json_: bool) -> None:
    """Show whom the certificates of PATH name, and until when: a PEM file, or a folder that `ygs certs` made."""
    document: CertificatesDocument = with_errors(lambda: certificates_document(path))
    if json_:
        print_json(document)
        return
    rows = Table.grid(padding=(0, 2, 0, 0))
    for one in document.certificates:
        rows.add_row(text("file"), text(one.file))
        rows.add_row(text("names"), text(one.uri or ("an authority" if one.authority else "nobody"), "bold"))
        if one.hosts:
            rows.add_row(text("hosts"), text(" ".join(one.hosts)))
        rows.add_row(text("signed by"), text(one.issuer))
        rows.add_row(text("valid"), text(f"{one.begins} to {one.expires}"))
        rows.add_row(text("left"), _left(one.days_left))
        rows.add_row()
    console().print(rows)


def _left(days: float) -> Any:  # noqa: ANN401 - a rich text
    if days <= 0:
        return text("expired", "red")
    return text(f"{days:.1f} days", "yellow" if days < SOON_DAYS else "")


def _announced(files: list[Path], *, replace: bool, dry_run: bool) -> bool:
    """Tell whether files are to be written; refuse to overwrite any that nobody gave up."""
    there = [str(file) for file in files if file.exists()]
    if there and not replace:
        raise CommandError(f"{there[0]} is there already; --replace would take its place", ExitCode.REFUSED)
    for file in files if dry_run else ():
        click.echo(f"would {'replace' if file.exists() else 'write'} {file}")
    return not dry_run


def _wrote(files: list[Path]) -> None:
    for file in files:
        click.echo(f"wrote {file}")


def with_errors(make: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever is made
    """Do something with files; what is wrong with them becomes one sentence."""
    try:
        return make()
    except BadCertificate as bad:
        raise CommandError(str(bad), ExitCode.CONFIGURATION) from None
    except OSError as error:
        raise CommandError(f"{error.filename or 'a file'}: {error.strerror}") from None
