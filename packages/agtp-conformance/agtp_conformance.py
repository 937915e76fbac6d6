"""
The command ``agtp-conformance``: test an AGTP server from outside, requirement by requirement.

It runs the cases of ``agtp conformance``, and is installed without the host. All that it knows of a server is on its
command line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agtphost.conformance.access import Access, Carrier, Role
from agtphost.conformance.cases import every_case
from agtphost.conformance.link import Credentials, Endpoint, Unreachable
from agtphost.conformance.reports import document, junit, line, listing, summary
from agtphost.conformance.runner import CaseResult, Outcome, Plan, run
from agtphost.conformance.signatures import public_key
from agtphost.conformance.target import connect
from agtphost.conformance.verdict import Failure

__version__ = "0.2.0"

PORT = 4480
"""The port of a URI that names none (core v08 section 5.5)."""

LONGEST = 86_400
"""Seconds that one answer may take, as an option."""

AGENT_ID = x509.ObjectIdentifier("2.25.268315605531543067570885820853135175300")
"""The certificate extension subject-agent-id (AGTP-CERT); its value is the Agent-ID in ASCII."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="agtp-conformance",
        description="Test an AGTP server over the wire, case by case. Without --destructive it is not changed.",
        epilog="Exit status: 0 every case that ran passed, 1 a case failed, 2 wrong usage, 3 no connection.",
    )
    parser.add_argument("uri", nargs="?", help="agtp://HOST or agtp://HOST:PORT")
    parser.add_argument("--list", action="store_true", help="print every case and what it needs; connect to nothing")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="an id, an area or a requirement"
    )
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    parser.add_argument("--strict", action="store_true", help="count a case that was not run as failed")
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report")
    parser.add_argument("--cacert", type=Path, metavar="FILE", help="authority of the server's certificate (PEM)")
    for name, what in (("", "the agent"), ("second-", "a second agent"), ("registrar-", "the issuer of the agents")):
        parser.add_argument(f"--{name}cert", type=Path, metavar="FILE", help=f"certificate of {what} (PEM)")
        parser.add_argument(
            f"--{name}key", type=Path, metavar="FILE", help="its key; default: the .key file next to it"
        )
    parser.add_argument(
        "--agent-id", type=_agent_id, metavar="ID", help="Agent-ID of the agent; default: that of its certificate"
    )
    parser.add_argument("--signing-key", type=Path, metavar="FILE", help="public key of the record signatures (PEM)")
    parser.add_argument("--destructive", action="store_true", help="run the cases that revoke an agent")
    parser.add_argument("--expendable", type=_agent_id, metavar="ID", help="Agent-ID of an agent that may be revoked")
    parser.add_argument("--quic", action="store_true", help="run over QUIC instead of TLS; needs aioquic")
    parser.add_argument("--plain-parameters", action="store_true", help="send parameters without the envelope")
    parser.add_argument("--timeout", type=_seconds, default=15.0, metavar="SECONDS", help="for one answer; default: 15")
    return parser


def _agent_id(text: str) -> str:
    if re.fullmatch("[0-9a-f]{64}", text) is None:
        raise argparse.ArgumentTypeError("an Agent-ID is 64 lower-case hexadecimal digits")
    return text


def _seconds(text: str) -> float:
    """Return seconds that a socket can wait."""
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) is None or not 0.001 <= float(text) <= LONGEST:
        raise argparse.ArgumentTypeError(f"it is not a number from 0.001 to {LONGEST}")
    return float(text)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    parser = build_parser()
    given = parser.parse_args(words)
    plan = Plan(only=given.only, strict=given.strict, fail_fast=given.fail_fast)
    cases = [case for case in every_case() if plan.selects(case)]
    if not cases:
        parser.error("no case matches --only; --list prints all")
    if given.list:
        print("\n".join(listing(cases)))
        return 0
    if given.uri is None:
        parser.error("the URI of the server is missing")
    if given.destructive != (given.expendable is not None):
        parser.error("--destructive and --expendable need each other")

    def print_result(result: CaseResult) -> None:
        if not given.json:
            print(line(result), flush=True)

    try:
        access = read_access(given)
        if given.junit is not None:
            # A run takes minutes: whether its report can be written is known before.
            given.junit.write_bytes(b"")
        with connect(access) as target:
            results = run(target, cases, plan, print_result)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    except Unreachable as error:
        print(f"agtp-conformance: {error}", file=sys.stderr)
        return 3
    if given.junit is not None:
        given.junit.write_bytes(junit(results, given.uri))
    print(json.dumps(document(results, given.uri), indent=2) if given.json else summary(results))
    return int(any(result.outcome is Outcome.FAILED for result in results))


def read_access(given: argparse.Namespace) -> Access:
    """
    Return the address and the credentials of the command line.

    :raises OSError: a file cannot be read.
    :raises ValueError: the URI names no host, or a file has no certificate or no Ed25519 public key.
    """
    place = urlsplit(given.uri)
    if place.scheme != "agtp" or not place.hostname:
        raise ValueError("the URI is not agtp://HOST or agtp://HOST:PORT")
    pairs = {
        Role.AGENT: (given.cert, given.key),
        Role.SECOND: (given.second_cert, given.second_key),
        Role.REGISTRAR: (given.registrar_cert, given.registrar_key),
    }
    credentials = {role: _credentials(cert, key) for role, (cert, key) in pairs.items() if cert is not None}
    if given.agent_id is not None:
        named = credentials.get(Role.AGENT, Credentials())
        credentials[Role.AGENT] = Credentials(cert=named.cert, key=named.key, agent_id=given.agent_id)
    keys: dict[str, Ed25519PublicKey] = {}
    if given.signing_key is not None:
        keys = _signing_key(given.signing_key)
    return Access(
        where=Endpoint(host=place.hostname, port=place.port or PORT),
        trust=given.cacert,
        credentials=credentials,
        keys=keys,
        expendable=given.expendable,
        timeout=given.timeout,
        carrier=Carrier.QUIC if given.quic else Carrier.TLS,
        plain=given.plain_parameters,
    )


def _credentials(cert: Path, key: Path | None) -> Credentials:
    octets = cert.read_bytes()
    try:
        extensions = x509.load_pem_x509_certificate(octets).extensions
    except ValueError:
        raise ValueError(f"{cert} has no certificate in PEM") from None
    found = [each.value for each in extensions if each.oid == AGENT_ID]
    agent_id = found[0].value.decode() if found and isinstance(found[0], x509.UnrecognizedExtension) else None
    return Credentials(cert=cert, key=key or cert.with_suffix(".key"), agent_id=agent_id)


def _signing_key(file: Path) -> dict[str, Ed25519PublicKey]:
    octets = file.read_bytes()
    try:
        key = public_key(octets.decode())
    except (Failure, ValueError):
        raise ValueError(f"{file} has no Ed25519 public key in PEM") from None
    return {_kid(key): key}


def _kid(key: Ed25519PublicKey) -> str:
    """Return the kid of a key, as hosts form it that choose no other."""
    return f"ed25519-{sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]}"


if __name__ == "__main__":
    sys.exit(main())
