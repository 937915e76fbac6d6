"""The transport: core v08 sections 4 and 10.1."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases
from agtphost.conformance.cases.framing import PROBE, probe
from agtphost.conformance.link import Unreachable, client_context
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("tls")


def _plain(target: Target, octets: bytes) -> bytes:
    where = target.access.where
    received = b""
    with socket.create_connection((where.host, where.port), timeout=target.access.timeout) as link:
        link.settimeout(1.0)
        with suppress(OSError):
            link.sendall(octets)
            while piece := link.recv(4096):
                received += piece
    return received


@CASES.case("cleartext-refused", "AGTP-005 HAIDIP-041", Need.BYTE_STREAM)
def cleartext(target: Target) -> None:
    """A request in clear is never answered."""
    expect(b"AGTP/" not in _plain(target, PROBE), "a request without TLS is answered")


@CASES.case("cleartext-http-refused", "AGTP-005", Need.BYTE_STREAM)
def cleartext_http(target: Target) -> None:
    """An HTTP request in clear is never answered."""
    got = _plain(target, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    expect(b"HTTP/" not in got and b"AGTP/" not in got, "an HTTP request without TLS is answered")


@CASES.case("serves-after-cleartext", "AGTP-005", Need.BYTE_STREAM)
def after_cleartext(target: Target) -> None:
    """A client without TLS does not affect other clients."""
    _plain(target, b"\x00" * 64)
    probe(target)


@CASES.case("version-1-3", "AGTP-006 AGTP-001")
def version(target: Target) -> None:
    """TLS 1.3 is negotiated."""
    with target.link() as link:
        expect(link.version == "TLSv1.3", f"negotiated {link.version}")


@CASES.case("version-1-2-refused", "AGTP-006", Need.BYTE_STREAM)
def old_version(target: Target) -> None:
    """A client that offers no more than TLS 1.2 gets no connection."""
    context = client_context(target.access.trust, target.credentials(Role.ANONYMOUS))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    where = target.access.where
    with (
        socket.create_connection((where.host, where.port), timeout=target.access.timeout) as raw,
        suppress(OSError),
        context.wrap_socket(raw, server_hostname=where.host) as link,
    ):
        expect(False, f"negotiated {link.version()}")


@CASES.case("certificate-names-host", "AGTP-007")
def names(target: Target) -> None:
    """The server's certificate is valid for its name under the authority that was given."""
    with target.link() as link:
        expect(link.is_verified, "the certificate cannot be read")


@CASES.case("certificate-of-unknown-authority", "AGTP-007", Need.BYTE_STREAM)
def unknown_authority(target: Target) -> None:
    """A client that does not trust the authority gets no connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    where = target.access.where
    with socket.create_connection((where.host, where.port), timeout=target.access.timeout) as raw:
        try:
            context.wrap_socket(raw, server_hostname=where.host).close()
        except OSError:
            return
    expect(False, "a certificate is accepted without any authority")


@CASES.case("client-certificate", "AGTP-008", Need.CERTIFICATE)
def client_certificate(target: Target) -> None:
    """A client certificate is accepted, and one is not required for discovery."""
    expect(target.as_agent("DISCOVER", "/agents").status == 200, "an agent with its certificate is refused")
    try:
        probe(target)
    except Unreachable as error:
        expect(False, f"a client without certificate gets no connection: {error}")


@CASES.case("identity-is-per-connection", "AGTP-008 AGTP-011", Need.CERTIFICATE)
def per_connection(target: Target) -> None:
    """A connection without certificate does not get the identity of another open connection."""
    target.as_agent("DISCOVER", "/agents")
    answer = target.ask("DISCOVER", "/agents", who=Role.ANONYMOUS)
    expect(answer.header("Agent-ID") is None, "an anonymous answer carries an Agent-ID")
