"""`ygs doctor`: examines an installation and says what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarn_gpu_sched.cli.doctor_documents import DoctorDocument, ExaminedDocument, FoundDocument
from yarn_gpu_sched.cli.exits import ExitCode
from yarn_gpu_sched.cli.jobs import as_json
from yarn_gpu_sched.cli.output import console, print_json, text
from yarn_gpu_sched.cli.service_option import checked_tls, service_option, target
from yarn_gpu_sched.client import Client
from yarn_gpu_sched.doctor import CHECKS, Installation, OpenClient, Places, Result, Verdict, examine

if TYPE_CHECKING:
    from rich.console import Console

CELLS_MIN = 20
_STYLES = {Verdict.OK: "green", Verdict.UNSEEN: "dim", Verdict.WARNING: "yellow", Verdict.FAULT: "bold red"}
_folder = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option(
    "--rm",
    multiple=True,
    metavar="URL",
    help="The ResourceManager's web address; of each one, where there are several.  [default: what the configuration says,"
    " else http://localhost:8088]",
)
@click.option(
    "--conf",
    type=_folder,
    envvar=["YARN_CONF_DIR", "HADOOP_CONF_DIR"],
    help="The ResourceManager's folder of Hadoop's configuration.  [env: YARN_CONF_DIR, HADOOP_CONF_DIR]",
)
@click.option(
    "--hdfs", default="", metavar="URL", help="The NameNode and the archive's folder: http://namenode:9870/archive"
)
@click.option("--hdfs-user", default="", metavar="NAME", help="Who writes there.  [default: the login name]")
@click.option(
    "--certificates", type=_folder, multiple=True, help="Folder with certificate.pem, key.pem and authority.pem."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 3600),
    default=120.0,
    show_default=True,
    help="Seconds for all of it.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing into HDFS, say what would be written.")
@as_json
@service_option
def doctor(  # noqa: PLR0913 - one parameter an option
    *,
    rm: tuple[str, ...],
    conf: Path | None,
    hdfs: str,
    hdfs_user: str,
    certificates: tuple[Path, ...],
    timeout_s: float,
    dry_run: bool,
    json_: bool,
    service: str | None,
) -> int:
    """Examine an installation end to end and say what to do.

    It changes nothing; where --hdfs is given it writes a small file there and removes it again. Exit code 1 if there is a
    fault. What the checks look at: docs/doctor.md.
    """
    places = Places(rm=rm, conf=conf, hdfs=hdfs, hdfs_user=hdfs_user, certificates=certificates, dry_run=dry_run)
    results = examine(Installation(places, _opener(target(service)), timeout_s=timeout_s))
    found = _documented(results) if json_ else _told(results)
    return ExitCode.FAILED if found[Verdict.FAULT] else ExitCode.DONE


def _opener(address: str) -> OpenClient:
    tls = checked_tls(address)
    return lambda timeout_s: Client(address, tls=tls, timeout_s=timeout_s, attempts_max=2)


def _documented(results: Iterator[Result]) -> Counter[Verdict]:
    listed = list(results)
    count = Counter(one.verdict for one in listed)
    documents = tuple(
        ExaminedDocument(
            one.check,
            one.verdict.value,
            tuple(FoundDocument(each.verdict.value, each.sentence, each.do) for each in one.findings),
        )
        for one in listed
    )
    print_json(DoctorDocument(documents, count[Verdict.FAULT], count[Verdict.WARNING], count[Verdict.UNSEEN]))
    return count


def _told(results: Iterator[Result]) -> Counter[Verdict]:
    """Print each result as soon as it is there."""
    out = console()
    count: Counter[Verdict] = Counter()
    for one in results:
        count[one.verdict] += 1
        _print(out, one)
    kinds = ((Verdict.FAULT, "with faults"), (Verdict.WARNING, "with warnings"), (Verdict.UNSEEN, "not all seen"))
    rest = "".join(f", {count[kind]} {words}" for kind, words in kinds if count[kind])
    out.print(text(f"{count.total()} checks: {count[Verdict.OK]} ok{rest}"))
    return count


def _print(out: Console, result: Result) -> None:
    """Print what a check found, broken behind the columns of verdict and name."""
    verdict_cells, name_cells = max(map(len, Verdict)) + 1, max(len(check.name) for check in CHECKS) + 1
    width = max(CELLS_MIN, out.width - verdict_cells - name_cells)
    for number, each in enumerate(result.findings):
        left = text(each.verdict.value.ljust(verdict_cells), _STYLES[each.verdict])
        left.append(("" if number else result.check).ljust(name_cells), style="default")
        sentences = [text(each.sentence), *([text(f"do: {each.do}")] if each.do else [])]
        for line in (line for sentence in sentences for line in sentence.wrap(out, width, overflow="fold")):
            line.rstrip()
            out.print(left + line, soft_wrap=True)
            left = text(" " * (verdict_cells + name_cells))
