"""The command ``agtp audit report``: write an export as a readable page and as a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import click

from agtphost.audit.export import ExportError, read_header, verify_export
from agtphost.audit.verify import Report
from agtphost.cli.audit.filter_options import filter_options, read_search
from agtphost.cli.audit.record_table import Row, entry_row, write_table
from agtphost.cli.audit.report_page import Subject, page
from agtphost.cli.failures import Unverified, WrongInput, local_file
from agtphost.cli.host_config import KEY_FILES, find_config, load_usable_config
from agtphost.cli.identities import labels
from agtphost.cli.local_files import given_keys
from agtphost.cli.options import EXISTING, HOST_TOML, Connection, json_option, signing_keys_option
from agtphost.cli.output import print_json
from agtphost.cli.target import signing_keys as local_keys
from agtphost.client.local_host import LocalHost
from agtphost.identity import envelope
from agtphost.identity.keys import VerifyingKey
from agtphost.stores import Search
from agtphost.vocabulary import jsontext


@click.command("report")
@click.argument("export", type=EXISTING, metavar="EXPORT", required=False)
@click.option("-o", "--output", type=EXISTING, metavar="FILE", help="File of the page; default: EXPORT with .html.")
@click.option("--csv", "table", type=EXISTING, metavar="FILE", help="Also write all rows for a spreadsheet.")
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=2_000,
    show_default=True,
    metavar="NUMBER",
    help="Maximum number of calls in the page.",
)
@filter_options()
@signing_keys_option
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, for names of agents and the key.")
@json_option
def report_command(
    export: Path | None,
    output: Path | None,
    table: Path | None,
    rows: int,
    given: Mapping[str, str],
    signing_keys_at: tuple[Path, ...],
    config: Path | None,
    as_json: bool,
) -> None:
    """
    Write an export as a page that people can read.

    The page has the verdict, the chains, the calls, and how to check them, in one file without scripts for any browser
    and for paper. The verdict is that of agtp audit verify, of the whole export; a filter selects the calls that are
    listed. The last part of the page explains how to verify the export without this program. If a check fails, the page
    is still written and says so at the top, and the exit status is 4.

    \b
    Examples:
      agtp audit export --proofs -o march.jsonl
      agtp audit report march.jsonl
      agtp audit report march.jsonl -o march.html --csv march.csv --signing-key signing.pub
      agtp audit report march.jsonl --filter 'tool:files.read_file status:4xx'
    """
    if export is None:
        raise WrongInput(
            "the file of an export is missing",
            "Make one: agtp audit export --proofs -o records.jsonl; then: agtp audit report records.jsonl",
        )
    where = Connection(config=config)
    search = read_search(given, where)
    keys = _keys(signing_keys_at, where)
    try:
        with local_file(export), export.open("rb") as lines:
            report = verify_export(lines, keys)
        with export.open("rb") as lines:
            header = read_header(next(lines))
            subject = Subject(
                server_id=header["server_id"],
                file=export.name,
                digest=_digest(export),
                keys_known=keys is not None,
                keys={kid: key.text for kid, key in report.keys.items()},
            )
    except ExportError as error:
        raise WrongInput(f"{export} is not an export: {error}", "Write one with agtp audit export -o FILE.") from None
    names = labels(where)
    output = export.with_suffix(".html") if output is None else output
    with local_file(output, doing="written"), output.open("x", encoding="utf-8") as stream:
        stream.writelines(page(subject, report, lambda: _rows(export, report, names, search), rows))
    if table is not None:
        with local_file(table, doing="written"), table.open("x", encoding="utf-8", newline="") as stream:
            write_table(csv.writer(stream), _rows(export, report, names, search))
    answer = {
        "verified": report.ok,
        "records": report.records,
        "faults": len(report.faults),
        "page": str(output),
        **({} if table is None else {"csv": str(table)}),
    }
    if not report.ok:
        raise Unverified(f"{export} does not verify; {output} lists the faults", answer=answer)
    if as_json:
        print_json(answer)
    else:
        click.echo(f"verified: {report.records} record{'s' * (report.records != 1)}")
        for written in (output, table):
            if written is not None:
                click.echo(f"wrote {written}")


def _keys(paths: Sequence[Path], where: Connection) -> Mapping[str, VerifyingKey] | None:
    """Return the trusted keys: the given ones, or else those of the configured host."""
    if paths:
        return given_keys(paths)
    found = find_config(where)
    return None if found is None else local_keys(LocalHost.of(load_usable_config(found, *KEY_FILES))) or None


def _digest(file: Path) -> str:
    digest = sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _rows(export: Path, report: Report, names: Mapping[str, str], search: Search) -> Iterator[Row]:
    """Yield the records of an export that match, in file order; malformed lines are among the faults instead."""
    unverified = set(report.unverified_ids)
    with export.open("rb") as lines:
        for line in lines:
            try:
                entry = jsontext.decode(line)
                if isinstance(entry, dict) and "signed" in entry:
                    signed = envelope.from_text(entry["format"], entry["signed"])
                    payload = envelope.parse_unverified(entry["format"], signed)
                    if search.matches(payload):
                        audit_id, chain = str(entry.get("audit_id", "")), str(entry.get("chain", ""))
                        verified = audit_id not in unverified
                        yield entry_row(payload, chain, entry.get("seq", ""), audit_id, names, verified=verified)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
