"""Read TXT records from one resolver; an answer counts only if it matches the question."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Any

from agtphost.identity.dns_anchor import NoEvidence
from agtphost.vocabulary.foreign_errors import explain

SECONDS = 5.0
TRIES = 3
PORT = 53
RESOLV_CONF = Path("/etc/resolv.conf")


def resolver_of(text: str | None) -> tuple[str, int]:
    """
    Parse a resolver's address: ``HOST``, ``HOST:PORT`` or ``[HOST]:PORT``; None means the system's first resolver.

    :raises NoEvidence: the text is malformed, or the system has no resolver.
    """
    if text is None:
        try:
            lines = RESOLV_CONF.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        for line in lines:
            words = line.split()
            if len(words) > 1 and words[0] == "nameserver":
                return words[1], PORT
        raise NoEvidence("the system has no resolver; give one with --resolver")
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536)):
        raise NoEvidence(f"--resolver {text!r} is not of the form HOST or HOST:PORT")
    return host, int(port or PORT)


def txt_records(name: str, resolver: tuple[str, int]) -> list[str]:
    """
    Return the texts of a name's TXT records, each with its parts joined.

    :raises NoEvidence: the name does not exist, or the resolver did not answer in time.
    """
    from twisted.names import dns

    question = dns.Message(id=secrets.randbelow(65_536), recDes=1)
    question.addQuery(name, dns.TXT, dns.IN)
    octets = question.toStr()
    try:
        answer = _query(octets, question.id, name, resolver)
    except (OSError, EOFError, ValueError) as error:
        raise NoEvidence(
            f"the resolver {resolver[0]}:{resolver[1]} gave no usable answer about {name}: {explain(error)}"
        ) from error
    if answer.rCode not in (dns.OK, dns.ENAME):
        raise NoEvidence(
            f"the resolver {resolver[0]}:{resolver[1]} failed to look up {name} (RCODE {answer.rCode}); "
            "try again, or give another one with --resolver"
        )
    if answer.rCode != dns.OK:
        raise NoEvidence(
            f"the resolver {resolver[0]}:{resolver[1]} has no {name} (RCODE {answer.rCode}); publish it in DNS first"
        )
    return [
        b"".join(record.payload.data).decode("utf-8", "replace")
        for record in answer.answers
        if record.type == dns.TXT and bytes(record.name.name).rstrip(b".").lower() == name.encode("ascii").lower()
    ]


def _query(octets: bytes, number: int, name: str, resolver: tuple[str, int]) -> Any:
    """Ask over UDP, and again over TCP if the answer was truncated."""
    family = socket.getaddrinfo(*resolver, type=socket.SOCK_DGRAM)[0][0]
    with socket.socket(family, socket.SOCK_DGRAM) as link:
        link.settimeout(SECONDS / TRIES)
        # A connected socket receives nothing from other addresses.
        link.connect(resolver)
        for attempt in range(TRIES):
            link.send(octets)
            try:
                answer = _read(link.recv(65_535), number, name)
            except TimeoutError:
                if attempt == TRIES - 1:
                    raise
                continue
            break
    return _query_over_tcp(octets, number, name, resolver) if answer.trunc else answer


def _query_over_tcp(octets: bytes, number: int, name: str, resolver: tuple[str, int]) -> Any:
    with socket.create_connection(resolver, SECONDS) as link, link.makefile("rb") as reader:
        link.sendall(len(octets).to_bytes(2, "big") + octets)
        length = int.from_bytes(reader.read(2), "big")
        return _read(reader.read(length), number, name)


def _read(octets: bytes, number: int, name: str) -> Any:
    from twisted.names import dns

    message = dns.Message()
    try:
        message.fromStr(octets)
    except Exception as error:
        # The codec has no base class for what it raises.
        raise ValueError("its answer is not a message of DNS; give another resolver with --resolver") from error
    asked = [bytes(query.name.name).lower() for query in message.queries]
    if not message.answer or message.id != number or asked != [name.encode("ascii").lower()]:
        raise ValueError("its answer does not match the question")
    return message
