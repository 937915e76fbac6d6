"""The commands ``agtp audit prove`` and ``agtp audit checkpoint``: prove that records are in an append-only log."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.merkle import ProofError, leaf_hash, proof_from_texts, verify_consistency, verify_inclusion
from agtphost.cli.abbreviations import audit_id_of
from agtphost.cli.audit.entries import entry_of
from agtphost.cli.exchange import inspect, open_client, require_success, result_of, signing_keys
from agtphost.cli.failures import NoConnection, Unverified, WrongInput
from agtphost.cli.local_files import given_keys, load_verifying_key, read_octets
from agtphost.cli.options import EXISTING, Connection, host_options, signing_keys_option
from agtphost.cli.output import print_json, print_summary, visible
from agtphost.cli.target import Target, resolve
from agtphost.identity import files
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary import times
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.reasons import Reason

if TYPE_CHECKING:
    from agtphost.client.sync import Client

FORMAT = "agtp-inclusion-proof/1"

RECORD = ("format", "jws", "cose", "kind", "seq")
"""Members of a record, as INSPECT shows it, that a stored proof has."""

PATIENCE = 10.0
"""Seconds to wait for a checkpoint that covers a new record."""

_AGAIN = "Fetch it again, from a host of the same version."
_KEEP = "Keep the earlier checkpoint as evidence, and ask the host's operator."


@click.command("prove")
@click.argument("audit_id", metavar="[AUDIT_ID]", required=False)
@click.option("-o", "--output", type=EXISTING, metavar="FILE", help="Write record and proof to a file.")
@click.option("--file", type=EXISTING, metavar="FILE", help="Verify a stored proof without a host.")
@signing_keys_option
@host_options
def prove_command(
    audit_id: str | None,
    output: Path | None,
    file: Path | None,
    signing_keys_at: tuple[Path, ...],
    where: Connection,
    as_json: bool,
) -> None:
    """
    Prove that a record is in the host's log.

    Fetches the record, the path from it to the root of the tree of all records, and the signed checkpoint of that root,
    and verifies all of them. The stored file proves the same to anyone who knows the host's public key.

    \b
    Examples:
      agtp audit prove AUDIT_ID
      agtp audit prove AUDIT_ID -o proof.json
      agtp audit prove --file proof.json --signing-key signing.pub
      agtp audit prove --file proof.json --signing-key state/keys
    """
    if file is not None:
        if audit_id is not None or output is not None:
            raise WrongInput("--file excludes AUDIT_ID and --output")
        if not signing_keys_at:
            raise WrongInput("--file needs --signing-key", "A proof cannot prove its own key.")
        bundle = _read(file)
        keys = given_keys(signing_keys_at)
    else:
        if audit_id is None:
            raise WrongInput("the argument AUDIT_ID is missing")
        audit_id = audit_id_of(where, audit_id)
        target = resolve(where)
        with open_client(target) as client:
            keys = KeyRing.copy_of(signing_keys(target, client))
            bundle = _fetch_bundle(client, target, audit_id)
    proven = prove(bundle, keys)
    if output is not None:
        files.replace(output, json.dumps(bundle, indent=2).encode() + b"\n", files.PUBLIC)
    if as_json:
        print_json(proven)
    else:
        print_summary(proven)
        click.echo("proven: the record is in the log that the checkpoint commits to")


def _fetch_bundle(client: Client, target: Target, audit_id: str) -> dict[str, Any]:
    asked = {"target": "audit", "audit_id": audit_id}
    record = inspect(client, target, asked)
    end = time.monotonic() + PATIENCE
    while True:
        reply = client.call(target.uri, "INSPECT", "/", {**asked, "target": "inclusion"})
        if reply.reason not in (Reason.CHECKPOINT_PENDING, Reason.CHECKPOINT_MISSING) or time.monotonic() > end:
            break
        # Under load a host makes a checkpoint only every two seconds.
        time.sleep(1)
    proof = result_of(require_success(reply))
    return {
        "format": FORMAT,
        "record": {"audit_id": audit_id, **{name: record[name] for name in RECORD if name in record}},
        "index": proof.get("index"),
        "proof": proof.get("proof"),
        "checkpoint": proof.get("checkpoint"),
    }


def _read(file: Path) -> dict[str, Any]:
    try:
        bundle = json.loads(read_octets(file))
    except ValueError:
        raise WrongInput(f"{file} is not JSON") from None
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        raise WrongInput(f"{file} is not a proof of the format {FORMAT}")
    return bundle


def prove(bundle: Mapping[str, Any], keys: Mapping[str, VerifyingKey]) -> dict[str, object]:
    """
    Verify record, proof and checkpoint.

    :param bundle: the contents of a file that ``-o`` writes.
    :raises Unverified: record, proof or checkpoint does not verify.
    :raises NoConnection: the bundle is incomplete.
    """
    entry = entry_of(bundle.get("record"), keys)
    index = bundle.get("index")
    if not isinstance(index, int) or isinstance(index, bool):
        raise NoConnection("the proof has no index", _AGAIN)
    signed = _verify_checkpoint(bundle.get("checkpoint"), keys)
    leaf = leaf_hash(bytes.fromhex(entry.audit_id))
    try:
        verify_inclusion(index, signed.size, leaf, _digests(bundle.get("proof")), signed.root)
    except ProofError as error:
        raise Unverified(f"the proof does not show that the record is in the log: {error}") from None
    return {
        "audit_id": entry.audit_id,
        "issued_at": entry.payload.get("issued_at"),
        "log": signed.origin,
        "index": index,
        "size": signed.size,
        "root": base64.b64encode(signed.root).decode(),
    }


def _verify_checkpoint(note: object, keys: Mapping[str, VerifyingKey]) -> Checkpoint:
    if not isinstance(note, str):
        raise NoConnection("the checkpoint is missing", _AGAIN)
    try:
        return checkpoint.verify(note, keys.values())
    except CheckpointError as error:
        raise Unverified(f"the checkpoint does not verify: {error}") from None


def _digests(proof: object) -> list[bytes]:
    try:
        return proof_from_texts(proof)
    except ProofError as error:
        raise NoConnection(f"the proof cannot be read: {error}", _AGAIN) from None


@click.command("checkpoint")
@click.option("-o", "--output", type=EXISTING, metavar="FILE", help="Write the checkpoint to a file.")
@click.option("--continues", type=EXISTING, metavar="FILE", help="An earlier checkpoint that it must continue.")
@click.option("--witness-key", type=EXISTING, multiple=True, metavar="FILE", help="Key of a required witness.")
@host_options
def checkpoint_command(
    output: Path | None,
    continues: Path | None,
    witness_key: tuple[Path, ...],
    where: Connection,
    as_json: bool,
) -> None:
    """
    Fetch the newest signed checkpoint of the log, and verify it.

    With --continues, the host must prove that no record covered by an earlier checkpoint was changed or removed;
    otherwise the exit status is 4. With --witness-key, the newest cosigned checkpoint is fetched instead, and must have
    the line of each witness. The note has the form that transparency log tools and witnesses read.

    \b
    Examples:
      agtp audit checkpoint -o monday.txt
      agtp audit checkpoint --continues monday.txt -o tuesday.txt
      agtp audit checkpoint --witness-key witness.pub
    """
    if continues is not None and witness_key:
        raise WrongInput("--continues and --witness-key exclude each other", "Run the command once for each.")
    target = resolve(where)
    witnesses: list[dict[str, object]] = []
    with open_client(target) as client:
        keys = signing_keys(target, client)
        if witness_key:
            newest, witnesses = _fetch_cosigned(
                client, target, keys, [load_verifying_key(path) for path in witness_key]
            )
        else:
            newest = _newest(client, target, keys, None if continues is None else _earlier(continues, keys))
    if output is not None:
        files.replace(output, newest.note.encode(), files.PUBLIC)
    shown: dict[str, object] = {
        "log": newest.origin,
        "size": newest.size,
        "root": base64.b64encode(newest.root).decode(),
        "key": next((checkpoint.verifier_key(newest.origin, key) for key in keys.values()), ""),
    }
    if as_json:
        print_json({**shown, "checkpoint": newest.note, **({"witnesses": witnesses} if witnesses else {})})
    else:
        print_summary(shown)
        for each in witnesses:
            click.echo(visible(f"cosigned by {each['witness']} at {each['time']}"))


def _fetch_cosigned(
    client: Client, target: Target, keys: Mapping[str, VerifyingKey], witnesses: list[VerifyingKey]
) -> tuple[Checkpoint, list[dict[str, object]]]:
    """Return the newest cosigned checkpoint, and one witness line for each key."""
    result = result_of(require_success(client.call(target.uri, "INSPECT", "/", {"target": "checkpoint"})))
    note = result.get("cosigned")
    if not isinstance(note, str):
        raise Unverified("the host has no checkpoint that a witness cosigned", "Try again in a minute.")
    newest = _verify_checkpoint(note, keys)
    shown: list[dict[str, object]] = []
    for key in witnesses:
        found = cosignature.find_cosignatures(note, [key])
        if not found:
            raise Unverified(
                f"the checkpoint of {newest.size} records has no line of the witness key {key.kid}",
                "Check that the host's [audit] witnesses has this witness, and try again in a minute.",
            )
        time_of = times.stamp(found[0].seconds)
        shown.append({"witness": found[0].witness, "time": time_of, "key": key.text})
    return newest, shown


def _earlier(file: Path, keys: Mapping[str, VerifyingKey]) -> Checkpoint:
    try:
        return _verify_checkpoint(file.read_text(encoding="utf-8"), keys)
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInput(f"{file} cannot be read: {explain(error)}") from error


def _newest(client: Client, target: Target, keys: Mapping[str, VerifyingKey], earlier: Checkpoint | None) -> Checkpoint:
    asked: dict[str, Any] = {"target": "checkpoint"}
    if earlier is not None and earlier.size:
        asked = {"target": "consistency", "size": earlier.size}
    reply = client.call(target.uri, "INSPECT", "/", asked)
    if earlier is not None and reply.status == 422:
        raise Unverified(
            f"the host's log is shorter than the {earlier.size} records of the earlier checkpoint: records are missing",
            _KEEP,
        )
    result = result_of(require_success(reply))
    newest = _verify_checkpoint(result.get("checkpoint"), keys)
    if earlier is not None and earlier.size:
        proof = _digests(result.get("proof"))
        try:
            verify_consistency(earlier.size, earlier.root, newest.size, newest.root, proof)
        except ProofError as error:
            raise Unverified(f"the log does not continue the earlier checkpoint: {error}", _KEEP) from None
    return newest
