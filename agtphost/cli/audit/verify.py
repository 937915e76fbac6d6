"""The command ``agtp audit verify``: verify that records are complete, in order and signed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.audit import state_check
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.export import ExportError, verify_export
from agtphost.audit.merkle import Frontier, leaf_hash
from agtphost.audit.table_check import Expected, check_tables
from agtphost.audit.verify import FaultKind, Report, Verifier
from agtphost.audit.witness import WitnessFile
from agtphost.cli.audit.entries import HOST, pages
from agtphost.cli.audit.http_answer import STDIN, conclude_answer
from agtphost.cli.audit.store import open_records, source_of
from agtphost.cli.colour import Verdict, echo
from agtphost.cli.exchange import open_client, require_success, signing_keys
from agtphost.cli.failures import CommandError, Unverified, WrongInput, local_file
from agtphost.cli.host_config import KEY_FILES, find_config, load_usable_config
from agtphost.cli.identities import agent_id_of
from agtphost.cli.local_files import given_keys
from agtphost.cli.options import EXISTING, Connection, connection_options, signing_keys_option, wide_option
from agtphost.cli.output import print_json, print_table
from agtphost.cli.progress import show_progress
from agtphost.cli.target import Target, resolve
from agtphost.cli.target import signing_keys as local_keys
from agtphost.client.local_host import LocalHost
from agtphost.client.local_identities import REGISTRAR
from agtphost.identity.keys import VerifyingKey
from agtphost.stores import DamagedRecord, Selection, StoreError
from agtphost.stores.database_check import is_malformed
from agtphost.stores.rows import DamagedRow
from agtphost.stores.schema_check import TABLE as SCHEMA
from agtphost.stores.settings import locate_url
from agtphost.stores.table_interfaces import ITableSource
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.identifiers import is_agent_id

if TYPE_CHECKING:
    from agtphost.client.sync import Client
    from agtphost.config import Config
    from agtphost.iagtp import IRecordReader

SHOWN = 20
"""Most faults that are printed for people; ``--json`` has all."""


@click.command("verify")
@click.argument("chains", nargs=-1, metavar="[AGENT|host]...")
@click.option("--file", type=EXISTING, metavar="EXPORT", help="Verify an export instead of a host.")
@signing_keys_option
@click.option("--uri", metavar="URI", help="Verify the records that this host sends.")
@click.option("--store", "other", metavar="URL", help="Verify the store at this URL, such as a restored backup.")
@click.option("--record", "recorded", is_flag=True, help="Record the result at the host, in your name.")
@wide_option
@connection_options
def verify_command(
    chains: tuple[str, ...],
    file: Path | None,
    signing_keys_at: tuple[Path, ...],
    uri: str | None,
    other: str | None,
    recorded: bool,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Verify hashes, signatures and links of whole chains.

    For the configured host, this reads its store, and the host need not run. With --uri or --profile it fetches the
    records from a host, and with --file it needs only the export, proofs of membership included. A record that no known
    key signed is marked signature_unverified: it is not evidence.

    After changes of the signing key, the host's first public key is enough for --file, because each key names its
    successor. A directory may be the host's keys/ or its state directory. Signatures that a key made after its
    retirement do not count. If any check fails, the exit status is 4.

    With -, the command verifies one record: the output of "curl -i" or "curl -D -" for an HTTP gateway's answer, on
    standard input, and its body if that was piped, too.

    With --store the command verifies a store at another place with the keys of the configured host: a backup of the
    database that was restored for that. It is older than the host's, so it is not compared with the witness file.

    With --record the running host records the result, good or bad, as an operator's statement, and the operators' page
    shows it with the evidence. --record - reads one record, as - does, and records nothing.

    \b
    Examples:
      agtp audit verify
      agtp audit verify librarian
      agtp audit verify --record --as operator
      curl -si http://127.0.0.1:8080/agents | agtp audit verify --record -
      agtp audit verify --file records.jsonl --signing-key signing.pub
      agtp audit verify --store postgresql://agtp@db.example.com/restored
      agtp audit verify --file records.jsonl --signing-key state/keys
      agtp audit verify host --uri agtp://agents.example.com
    """
    if chains == (STDIN,) and file is None:
        conclude_answer(_answer_keys(signing_keys_at, uri, where), as_json)
        return
    if signing_keys_at and file is None:
        raise WrongInput("--signing-key needs --file or -")
    if other is not None and (file is not None or uri is not None or recorded):
        raise WrongInput("--store excludes --file, --uri and --record: it verifies a store at another place")
    if file is not None:
        if chains or uri or recorded:
            raise WrongInput("--file excludes AGENT, --uri and --record: it verifies a whole export")
        report, source = _export(file, signing_keys_at, where)
    elif other is not None:
        config = _config_for_store(other, where)
        report, source = _store(config, _chain_ids(where, chains), witnessed=False), source_of(config)
    else:
        path = find_config(where) if uri is None else None
        if path is not None:
            config = load_usable_config(path, ("store",), *KEY_FILES)
            report, source = _store(config, _chain_ids(where, chains)), source_of(config)
        else:
            target = resolve(where, uri)
            report, source = _wire(target, _chain_ids(where, chains)), target.uri
    if not recorded:
        conclude(report, source, as_json)
        return
    audit_id, failure = _record_report(report, where, uri, f"{len(chains) or 'all'} chains")
    conclude(report, source, as_json, audit_id)
    if failure is not None:
        raise failure


def _answer_keys(signing_keys_at: Iterable[Path], uri: str | None, where: Connection) -> Mapping[str, VerifyingKey]:
    """Return the keys that may have signed an answer: those given, the configured host's, or published ones."""
    keys = given_keys(signing_keys_at)
    path = find_config(where) if uri is None and not keys else None
    if path is not None:
        keys = local_keys(LocalHost.of(load_usable_config(path, *KEY_FILES)))
    if keys:
        return keys
    target = resolve(where, uri)
    with open_client(target) as client:
        return signing_keys(target, client)


def _record_report(report: Report, where: Connection, uri: str | None, source: str) -> tuple[str, CommandError | None]:
    """Record a result at the host; return the Audit-ID, or an empty string and the error if the host refused."""
    said = {"verified": report.ok, "records": report.records, "faults": len(report.faults), "source": source}
    try:
        target = resolve(where, uri, identity=REGISTRAR)
        with open_client(target) as client:
            return require_success(client.call(target.uri, "CONFIRM", "/verifications", said)).audit_id or "", None
    except CommandError as error:
        return "", error


def _chain_ids(where: Connection, chains: Iterable[str]) -> tuple[str, ...]:
    """Return the identifiers of chains in the store: Agent-IDs, and an empty string for the host's own chain."""
    return tuple(HOST_CHAIN if chain == HOST else agent_id_of(where, chain) for chain in chains)


def _export(file: Path, signing_keys_at: Iterable[Path], where: Connection) -> tuple[Report, str]:
    keys: Mapping[str, VerifyingKey] | None = given_keys(signing_keys_at) or None
    if keys is None and where.config is not None:
        keys = local_keys(LocalHost.of(load_usable_config(where.config, *KEY_FILES))) or None
    try:
        with local_file(file), file.open("rb") as lines:
            report = verify_export(show_progress(lines, "lines verified"), keys)
    except ExportError as error:
        raise WrongInput(f"{file} is not an export: {error}") from None
    known = "" if keys is not None else " (with the keys from the file; their owner was not checked)"
    return report, f"{file}{known}"


def _config_for_store(url: str, where: Connection) -> Config:
    """Return the configuration of the host here, with a store at another place."""
    path = find_config(where)
    if path is None:
        raise WrongInput("--store needs the host.toml of the host, for its keys", "Name it with --config.")
    config = load_usable_config(path, *KEY_FILES)
    try:
        locate_url(url)
    except StoreError as error:
        raise WrongInput(str(error)) from None
    return config.model_copy(update={"store": config.store.model_copy(update={"url": url, "plugin": None})})


def _store(config: Config, chains: tuple[str, ...], *, witnessed: bool = True) -> Report:
    """
    Verify a store.

    :param witnessed: whether to compare it with the witness file.
    """
    keys = local_keys(LocalHost.of(config))
    if config.audit.signing and not keys:
        raise WrongInput(
            "the host's public signing key is missing",
            "The first start of a host makes it; if this host ran before, restore the .pub file of [audit] key.",
        )
    verifier = Verifier(keys, allow_unsigned=not config.audit.signing)
    # Read the witness file before the store, because the store may grow in between.
    seen = None if chains or not witnessed else _read_witness(config, keys, verifier)
    with open_records(config) as reader:
        if walk(reader, verifier, chains) and not chains:
            compare_tables(reader, verifier, seen, signing=config.audit.signing)
            if witnessed and (why := _describe_contradiction(reader, seen, config)):
                verifier.note(FaultKind.HEAD, "", "", f"{config.audit.witness} {why}")
    return verifier.finish()


def walk(reader: IRecordReader, verifier: Verifier, chains: Iterable[str] = ()) -> bool:
    """
    Pass every record of a store, or of some of its chains, to a verifier, together with faults that SQLite finds.

    :return: whether the store has its tables; if not, no record was read and no table can be compared.
    """
    _note_damage(reader, verifier)
    if not _has_tables(reader, verifier):
        return False
    try:
        for selection in [Selection(chain=chain) for chain in chains] or [Selection()]:
            found = reader.records(selection, damaged=lambda chain, why: verifier.note(FaultKind.HASH, chain, "", why))
            for record in show_progress(found, "records verified"):
                verifier.add(record)
    except DamagedRow as error:
        verifier.note_row(error.table, error.row, error.explanation)
    return True


def _note_damage(reader: IRecordReader, verifier: Verifier) -> None:
    """Note what SQLite finds wrong with the file, with table and row where it names them."""
    faults = reader.faults()
    places: list[tuple[str, str] | None] = [None] * len(faults)
    if faults and ITableSource.providedBy(reader):
        try:
            with ITableSource(reader).tables() as rows:
                places = [rows.name_fault(fault) for fault in faults]
        except (DamagedRow, sqlite3.DatabaseError):
            places = [None] * len(faults)  # The schema itself cannot be read, which is named below.
    for fault, place in zip(faults, places, strict=True):
        explanation = f"the database itself is damaged: {fault}"
        if place is None:
            verifier.note(FaultKind.FORM, "", "", explanation)
        else:
            verifier.note_row(*place, explanation)


def _has_tables(reader: IRecordReader, verifier: Verifier) -> bool:
    """Note how tables, indexes and triggers differ from the host's schema; return whether all tables exist."""
    if not ITableSource.providedBy(reader):
        return True
    try:
        with ITableSource(reader).tables() as rows:
            changes = rows.schema_changes()
    except sqlite3.DatabaseError as error:
        if not is_malformed(error):
            raise
        verifier.note_row(SCHEMA, "(unknown)", f"the table cannot be read: {explain(error)}")
        return False
    for change in changes:
        verifier.note_row(SCHEMA, change.row, change.explanation)
    return not any(change.lacks_table for change in changes)


def compare_tables(reader: IRecordReader, verifier: Verifier, seen: Checkpoint | None, *, signing: bool) -> None:
    """
    Compare the tables of a store with what was signed, after its records were verified.

    A plugin's store has no other known tables than its records and its state.

    :param seen: the last checkpoint in the witness file.
    :param signing: whether the host signs its records.
    """
    for table, row, explanation in state_check.findings(reader):
        verifier.note_row(table, row, explanation)
    if not ITableSource.providedBy(reader):
        return
    expected = Expected(keys=verifier.keys if signing else None, now=int(time.time() * 1000), seen=seen)
    with ITableSource(reader).tables() as rows:
        for finding in check_tables(
            rows, expected, lambda found: show_progress(found, "records compared with the tables")
        ):
            verifier.note_row(*finding)


def _read_witness(config: Config, keys: Mapping[str, VerifyingKey], verifier: Verifier) -> Checkpoint | None:
    """Return the last checkpoint in the host's witness file."""
    try:
        return WitnessFile(config.audit.witness, keys.values()).last()
    except StoreError as error:
        verifier.note(FaultKind.HEAD, "", "", str(error))
        return None


def _describe_contradiction(reader: IRecordReader, seen: Checkpoint | None, config: Config) -> str:
    """Return how store and witness file contradict each other; empty if they agree."""
    try:
        if seen is not None:
            return contradiction(reader, seen)
        if not config.audit.witness.exists() and reader.checkpoint() is not None:
            return "is missing although the store has checkpoints: an older copy of the store may have been restored"
    except DamagedRecord as error:
        return f"cannot be compared with the store: {error}"
    return ""


def contradiction(reader: IRecordReader, seen: Checkpoint) -> str:
    """Return how the store contradicts a checkpoint that was made of it; empty if it agrees."""
    tree = Frontier()
    for entry in islice(reader.every_audit_id(), seen.size):
        tree.add(leaf_hash(entry))
    if tree.size < seen.size:
        return (
            f"has seen {seen.size} records, and the store has {tree.size}: records are missing, or an older copy "
            "was restored"
        )
    return "" if tree.root() == seen.root else f"has seen other records than the first {seen.size} of the store"


def _wire(target: Target, chains: tuple[str, ...]) -> Report:
    with open_client(target) as client:
        keys = signing_keys(target, client)
        verifier = Verifier(keys)
        for chain in chains or tuple(_every_chain(target, client)):
            for record in _oldest_first(target, client, chain, keys):
                verifier.add(record)
    return verifier.finish()


def _every_chain(target: Target, client: Client) -> Iterator[str]:
    """Yield the host's own chain, and those of the agents that it discloses."""
    yield HOST_CHAIN
    listed = require_success(client.call(target.uri, "DISCOVER", "/agents")).result
    for entry in listed if isinstance(listed, list) else []:
        agent_id = entry.get("agent_id") if isinstance(entry, dict) else None
        if isinstance(agent_id, str) and is_agent_id(agent_id):
            yield agent_id


def _oldest_first(target: Target, client: Client, chain: str, keys: Mapping[str, VerifyingKey]) -> list[StoredRecord]:
    found = show_progress(pages(client, target.uri, chain or HOST, keys, None), "records fetched")
    newest_first = [entry.to_stored_record(chain) for entry in found]
    return newest_first[::-1]


def conclude(report: Report, source: str, as_json: bool, recorded: str | None = None) -> None:
    """
    Print the result of a verification.

    :param recorded: Audit-ID of the record of this result; empty if the host refused to record it.
    :raises Unverified: the report has a fault.
    """
    answer = {
        "verified": report.ok,
        "source": source,
        "records": report.records,
        "unsigned": report.unsigned,
        "whole": report.whole,
        "signature_unverified": report.unverified_ids,
        **({"proven": report.proven, "log": report.log} if report.log else {}),
        "keys": [{"kid": kid, "not_after": report.keys.until.get(kid)} for kid in report.keys],
        "heads": [
            {"chain": chain or HOST, "seq": end.seq, "audit_id": end.audit_id, "issued_at": end.issued_at}
            for chain, end in sorted(report.heads.items())
        ],
        **({"clock": [asdict(each) for each in report.clock]} if report.clock else {}),
        **({} if recorded is None else {"recorded": recorded}),
        "faults": [
            {
                "kind": fault.kind.value,
                "chain": fault.chain or HOST,
                "seq": fault.seq,
                "audit_id": fault.audit_id,
                "signature_unverified": fault.signature_unverified,
                "explanation": fault.explanation,
                **({"table": fault.table, "row": fault.row} if fault.table else {}),
            }
            for fault in report.faults
        ],
    }
    if not report.ok:
        listed = "\n".join(f"  {fault}" for fault in report.faults[:SHOWN])
        more = len(report.faults) - SHOWN
        rest = f"\n  and {more} more" if more > 0 else ""
        raise Unverified(f"{source} does not verify:\n{listed}{rest}", answer=answer)
    if as_json:
        print_json(answer)
        return
    print_table(
        ("CHAIN", "RECORDS" if report.whole else "SEQ", "NEWEST", "AUDIT-ID"),
        ((chain or HOST, end.seq, end.issued_at, end.audit_id) for chain, end in sorted(report.heads.items())),
    )
    if report.keys.links:
        named = ", then ".join((next(iter(report.keys.links)), *(link.new.kid for link in report.keys.links.values())))
        click.echo(f"signing keys: {named}")
    for each in report.clock[-SHOWN:]:
        click.echo(f"clock: {each}")
    unsigned = f", {report.unsigned} of them unsigned" if report.unsigned else ""
    if not report.whole:
        click.echo("this is a selection of records; whether it is complete cannot be checked")
    if report.log:
        click.echo(f"proven: {report.proven} records are in the log {report.log}")
    echo(f"verified: {report.records} record{'s' * (report.records != 1)}{unsigned}, {source}", Verdict.GOOD)
    if recorded:
        click.echo(f"on record: {recorded}")
