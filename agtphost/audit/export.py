"""
Records as JSON lines, to be kept and verified anywhere.

The first line says what follows and has the public keys; then one line per
record, chain by chain, oldest first; the last line has the number of records
and where each chain ended, so that a file cut short is noticed. The keys in
the file prove nothing by themselves: who verifies should know them, or their
fingerprints, from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.verify import FaultKind, Report, Verifier
from agtphost.identity import envelope
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.vocabulary import jsontext

FORMAT = "agtp-audit-export/1"


class ExportError(ValueError):
    """The text is not an export that this program reads."""


def write_export(
    records: Iterable[StoredRecord],
    *,
    server_id: str,
    keys: Iterable[tuple[str, VerifyingKey]],
    whole: bool = True,
) -> Iterator[bytes]:
    """
    The lines of an export, each with its line feed.

    :param records: each chain oldest first.
    :param keys: the host's public keys, as (kid, key).
    :param whole: whether no record of a chain is left out.
    """
    yield _line(
        {
            "format": FORMAT,
            "server_id": server_id,
            "whole": whole,
            "keys": [{"kid": kid, "alg": "EdDSA", "key": key.text} for kid, key in keys],
        }
    )
    count = 0
    heads: dict[str, str] = {}
    for record in records:
        count += 1
        heads[record.chain] = record.audit_id
        yield _line(_members(record))
    yield _line({"end": FORMAT, "records": count, "heads": heads})


def _line(members: Mapping[str, object]) -> bytes:
    return jsontext.encode(members) + b"\n"


def _members(record: StoredRecord) -> dict[str, object]:
    return {
        "chain": record.chain,
        "seq": record.seq,
        "audit_id": record.audit_id,
        "previous_audit_id": record.previous_audit_id,
        "kind": record.kind,
        "format": record.format,
        "signed": envelope.to_text(record.format, record.signed),
    }


_TEXTS = ("chain", "audit_id", "previous_audit_id", "kind", "format")


def _record(members: Any) -> StoredRecord:
    try:
        fields = {name: members[name] for name in _TEXTS}
        seq, signed = members["seq"], members["signed"]
        if type(seq) is not int or not all(isinstance(text, str) for text in (signed, *fields.values())):
            raise ExportError("a member of a record has the wrong type")
        return StoredRecord(seq=seq, signed=envelope.from_text(fields["format"], signed), **fields)
    except JWSError as error:
        raise ExportError(f"{error}") from None
    except (KeyError, TypeError) as error:
        raise ExportError(f"a record lacks a member: {error}") from None


def keys_of(header: Mapping[str, Any]) -> dict[str, VerifyingKey]:
    """
    The public keys that an export's first line has.

    :raises ExportError: for what is no key.
    """
    try:
        return {entry["kid"]: VerifyingKey.from_text(entry["key"]) for entry in header["keys"]}
    except (KeyError, TypeError, AttributeError, KeyFormatError) as error:
        raise ExportError(f"the export's keys cannot be read: {error}") from None


def read_header(line: bytes) -> dict[str, Any]:
    """
    The first line of an export.

    :raises ExportError: it is none.
    """
    try:
        header = jsontext.decode(line)
    except jsontext.JSONTextError as error:
        raise ExportError(f"the first line is not JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ExportError(f"the first line does not say {FORMAT}")
    return header


def verify_export(
    lines: Iterable[bytes], keys: Mapping[str, VerifyingKey] | None = None, *, allow_unsigned: bool = False
) -> Report:
    """
    Verify an export without the host.

    :param lines: of the file, in order.
    :param keys: the host's keys by ``kid``, known from elsewhere; None takes those in the file, which
        tells damage from no damage, but not who signed.
    :raises ExportError: it is no export at all.
    """
    iterator = iter(lines)
    header = read_header(next(iterator, b""))
    verifier = Verifier(
        keys_of(header) if keys is None else keys,
        allow_unsigned=allow_unsigned,
        whole=header.get("whole") is not False,
    )
    count = 0
    for number, line in enumerate(iterator, 2):
        try:
            members = jsontext.decode(line)
            if isinstance(members, dict) and "end" in members:
                return _end(verifier, members, count, rest=next(iterator, None))
            count += 1
            verifier.add(_record(members))
        except (jsontext.JSONTextError, ExportError) as error:
            verifier.note(FaultKind.FORM, "", "", f"line {number}: {error}")
    verifier.note(FaultKind.HEAD, "", "", "the export was cut short: its last line is missing")
    return verifier.finish()


def _end(verifier: Verifier, members: Mapping[str, Any], count: int, rest: bytes | None) -> Report:
    heads = members.get("heads")
    if members.get("records") != count or not isinstance(heads, dict):
        verifier.note(FaultKind.HEAD, "", "", f"the last line does not count {count} records")
    if rest is not None:
        verifier.note(FaultKind.FORM, "", "", "something follows the last line")
    report = verifier.finish(heads if isinstance(heads, dict) else None)
    for chain in report.heads.keys() - (heads if isinstance(heads, dict) else report.heads).keys():
        verifier.note(FaultKind.HEAD, chain, "", "the last line does not name this chain")
    return report
