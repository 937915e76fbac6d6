"""What makes a listener for QUIC slow or silent without being wrong, for ``agtp check``."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.config import Config

LONGEST_CHAIN = 3_000
"""Octets of certificates that fit three datagrams, which is what a client's first one allows (RFC 9000 section 8.1)."""

WILDCARDS = frozenset({"0.0.0.0", "::"})


def quic_warnings(config: Config) -> Iterator[str]:
    """Yield a warning for each setting; reads the certificates, and passes over those that cannot be read."""
    if not config.quic.enabled:
        return
    address = config.listen.address
    if address in WILDCARDS:
        yield (
            f"[quic]: at {address} the system chooses the address that answers come from: if this machine has several, "
            "name the one that clients use in [listen] address"
        )
    named = [
        ("[tls]", config.tls.certificate),
        *((f"[[tls.server]] {each.name}", each.certificate) for each in config.tls.server),
    ]
    for place, path in named:
        try:
            chain = x509.load_pem_x509_certificates(path.read_bytes())
        except (OSError, ValueError):
            continue
        octets = sum(len(each.public_bytes(Encoding.DER)) for each in chain)
        if octets > LONGEST_CHAIN:
            yield (
                f"{place} certificate: a chain of {octets:,} octets costs clients of [quic] a round trip more: leave "
                "out the root, or use keys of P-256"
            )
