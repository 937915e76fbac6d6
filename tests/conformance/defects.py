"""
What may be wrong with a host, each as a change of the octets that it reads or writes.

With the host's signing key, an answer that was changed is sealed again, so that
it shows by nothing but the defect itself.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from agtphost.identity.keys import SigningKey


@dataclass(frozen=True, kw_only=True)
class Passing:
    """An answer on its way."""

    status: int
    text: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.fields if key.lower() == name.lower()), "")

    def with_field(self, name: str, value: str) -> Passing:
        return replace(
            self, fields=tuple((key, value if key.lower() == name.lower() else old) for key, old in self.fields)
        )

    def without(self, name: str) -> Passing:
        return replace(self, fields=tuple(item for item in self.fields if item[0].lower() != name.lower()))

    def with_body(self, body: bytes) -> Passing:
        return replace(self, body=body).with_field("Content-Length", str(len(body)))

    def payload(self) -> dict[str, Any]:
        part = self.header("Attribution-Record").split(".")[1]
        found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return found

    def octets(self) -> bytes:
        lines = [f"AGTP/1.0 {self.status} {self.text}", *(f"{name}: {value}" for name, value in self.fields)]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


def _b64(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


@dataclass(frozen=True, kw_only=True)
class Seal:
    """Signs again what a defect has changed, so that it shows by nothing else."""

    key: SigningKey

    def again(self, answer: Passing, **members: object) -> Passing:
        """The answer with a record of its present status and body, and of ``members``."""
        payload = {
            **answer.payload(),
            "status": answer.status,
            "result_hash": sha256(answer.body).hexdigest(),
            **members,
        }
        head = answer.header("Attribution-Record").split(".")[0]
        covered = f"{head}.{_b64(json.dumps(payload, separators=(',', ':'), sort_keys=True).encode())}"
        jws = f"{covered}.{_b64(self.key.sign(covered.encode()))}"
        return answer.with_field("Attribution-Record", jws).with_field("Audit-ID", sha256(jws.encode()).hexdigest())


Answers = Callable[[Passing, Seal], Passing]
Asks = Callable[[bytes], bytes]


@dataclass(frozen=True, kw_only=True)
class Defect:
    """What is wrong."""

    answers: Answers = lambda answer, seal: answer
    asks: Asks = lambda octets: octets
    swap: bool = False
    """Whether answers that come soon after each other are sent in reverse."""

    tail: bytes = b""
    """What follows every answer."""


def whole(buffer: bytearray) -> Iterator[Passing]:
    """The complete answers at the head of a buffer, taken from it."""
    while (end := buffer.find(b"\r\n\r\n")) >= 0:
        first, *lines = bytes(buffer[:end]).decode().split("\r\n")
        fields = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
        _, status, text = first.split(" ", 2)
        answer = Passing(status=int(status), text=text, fields=fields, body=b"")
        whole = end + 4 + int(answer.header("Content-Length"))
        if len(buffer) < whole:
            return
        yield replace(answer, body=bytes(buffer[end + 4 : whole]))
        del buffer[:whole]


# What can be wrong


def _manifest(answer: Passing, seal: Seal, change: Callable[[dict[str, Any]], None]) -> Passing:
    if "manifest" not in answer.header("Content-Type"):
        return answer
    document = json.loads(answer.body)
    change(document)
    return seal.again(answer.with_body(json.dumps(document).encode()))


def _status(wrong: int, shown: int) -> Answers:
    def changed(answer: Passing, seal: Seal) -> Passing:
        if answer.status != wrong:
            return answer
        body = re.sub(rb'("status": ?)%d' % wrong, rb"\g<1>%d" % shown, answer.body)
        return seal.again(replace(answer, status=shown).with_body(body))

    return changed


def _unwarned(answer: Passing, seal: Seal) -> Passing:
    """A list of agents that leaves out what is doubtful about them."""
    if b'"trust_warning"' not in answer.body or not answer.body.startswith(b"["):
        return answer
    entries = [{**entry, "trust_warning": ""} for entry in json.loads(answer.body)]
    return seal.again(answer.with_body(json.dumps(entries).encode()))


def _unsigned(answer: Passing, seal: Seal) -> Passing:
    payload = answer.header("Attribution-Record").split(".")[1]
    jws = f"{_b64(json.dumps({'alg': 'none', 'typ': 'JWT'}).encode())}.{payload}."
    return answer.with_field("Attribution-Record", jws).with_field("Audit-ID", sha256(jws.encode()).hexdigest())


def _forged(answer: Passing, seal: Seal) -> Passing:
    return Seal(key=SigningKey.generate()).again(answer)


def _merged_lengths(octets: bytes) -> bytes:
    """A front end that reads the first of two Content-Length fields and drops the rest."""
    head, end, rest = octets.partition(b"\r\n\r\n")
    lines, seen = [], 0
    for line in head.split(b"\r\n"):
        is_length = line.lower().startswith(b"content-length:")
        seen += is_length
        if not is_length or seen == 1:
            lines.append(line)
    return b"\r\n".join(lines) + end + rest


def _dechunked(octets: bytes) -> bytes:
    """A front end that drops Transfer-Encoding."""
    return re.sub(rb"(?im)^transfer-encoding:[^\r]*\r\n", b"", octets)


def _whole_chain(answer: Passing, seal: Seal) -> Passing:
    return seal.again(answer, previous_audit_id=sha256(answer.header("Audit-ID").encode()).hexdigest())


def misordered(members: Mapping[str, Any]) -> bytes:
    """What a canonical form with an error in it would be: names in the wrong order."""
    names = sorted(members, reverse=True)
    return json.dumps({name: members[name] for name in names}, separators=(",", ":"), ensure_ascii=False).encode()


def _misordered_manifest(answer: Passing, seal: Seal) -> Passing:
    if "manifest" not in answer.header("Content-Type"):
        return answer
    document = json.loads(answer.body)
    payload = misordered({name: value for name, value in document.items() if name != "manifest_signature"})
    covered = f"{document['manifest_signature'].split('.')[0]}.{_b64(payload)}"
    document["manifest_signature"] = f"{covered}.{_b64(seal.key.sign(covered.encode()))}"
    return seal.again(answer.with_body(json.dumps(document).encode()))


def _misordered_genesis(answer: Passing, seal: Seal) -> Passing:
    """Another issuer's Genesis, hashed and signed in the wrong order."""
    try:
        document = json.loads(answer.body)
    except ValueError:
        return answer
    if not isinstance(document, dict) or "issuer_public_key" not in document:
        return answer
    key = SigningKey.generate()
    document["issuer_public_key"] = key.public.text
    octets = misordered({name: value for name, value in document.items() if name not in ("agent_id", "signature")})
    document.update(agent_id=sha256(octets).hexdigest(), signature=_b64(key.sign(octets)))
    return seal.again(answer.with_body(json.dumps(document).encode()))


DEFECTS: Mapping[str, Defect] = {
    "none": Defect(),
    "wrong-audit-id": Defect(answers=lambda answer, seal: answer.with_field("Audit-ID", "ab" * 32)),
    "no-record": Defect(answers=lambda answer, seal: answer.without("Attribution-Record")),
    "unsigned-record": Defect(answers=_unsigned),
    "forged-record": Defect(answers=_forged),
    "broken-chain": Defect(answers=_whole_chain),
    "404-for-459": Defect(answers=_status(459, 404)),
    "403-for-262": Defect(answers=_status(262, 403)),
    "leaked-segment-accepted": Defect(answers=_status(460, 404)),
    "scope-not-enforced": Defect(answers=_status(262, 200)),
    "schema-not-enforced": Defect(answers=_status(422, 200)),
    "unknown-agent-served": Defect(answers=_status(401, 200)),
    "two-lengths-accepted": Defect(asks=_merged_lengths),
    "transfer-encoding-ignored": Defect(asks=_dechunked),
    "pipelined-out-of-order": Defect(swap=True),
    "octets-after-answer": Defect(tail=b"\r\n"),
    "result-hash-of-another-body": Defect(answers=lambda answer, seal: seal.again(answer, result_hash="cd" * 32)),
    "no-server-id": Defect(answers=lambda answer, seal: answer.without("Server-ID")),
    "removed-field": Defect(
        answers=lambda answer, seal: replace(answer, fields=(*answer.fields, ("AGTP-Status", str(answer.status))))
    ),
    "task-id-dropped": Defect(answers=lambda answer, seal: answer.without("Task-ID")),
    "response-id-repeated": Defect(
        answers=lambda answer, seal: seal.again(answer.with_field("Response-ID", "one"), response_id="one")
    ),
    "agents-listed-without-warning": Defect(answers=_unwarned),
    "untyped-body": Defect(answers=lambda answer, seal: answer.without("Content-Type")),
    "no-catalog-version": Defect(
        answers=lambda answer, seal: _manifest(answer, seal, lambda document: document.pop("catalog_version"))
    ),
    "tampered-manifest": Defect(
        answers=lambda answer, seal: _manifest(
            answer, seal, lambda document: document["server"].update(operator="another")
        ),
    ),
    "manifest-signed-out-of-order": Defect(answers=_misordered_manifest),
    "genesis-hashed-out-of-order": Defect(answers=_misordered_genesis),
    "handler-published": Defect(
        answers=lambda answer, seal: _manifest(
            answer, seal, lambda document: document["endpoints"][-1]["handler"].update(function="a.b")
        )
    ),
}
"""By name."""
