"""The host's own certificates by server name, for handshakes that are not OpenSSL's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key


@dataclass(frozen=True)
class OwnCertificate:
    """A certificate of the host with those above it, and its key."""

    chain: tuple[x509.Certificate, ...]
    key_pem: bytes

    @cached_property
    def key(self) -> Any:
        """The private key; parsed when it is first used, which a host without QUIC never does."""
        return load_pem_private_key(self.key_pem, password=None)


@dataclass(frozen=True)
class OwnCertificates:
    """
    The certificates of a host.

    :param main: for every name without a certificate.
    :param named: by host name in lower case.
    """

    main: OwnCertificate
    named: Mapping[str, OwnCertificate]

    def find(self, name: str) -> OwnCertificate:
        """Return the certificate for a name; an empty one is none."""
        return self.named.get(name, self.main)
