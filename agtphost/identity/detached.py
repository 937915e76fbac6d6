"""
Signatures that are sent next to a document instead of in it: a JWS with detached content (RFC 7515 appendix F).

Core v08 section 6.1 wants every variant of a document signed; a member could
not sign YAML, HTML or an unaltered Genesis, so the signature is a header
field of the response and covers the body octet for octet.
"""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.identity import jws
from agtphost.identity.encoding import encode
from agtphost.identity.keys import Signer, VerifyingKey

HEADER = "Document-Signature"
"""The response header field."""

TYPE = "agtp-document"
"""``typ`` of the signature: that of a record or a manifest never passes for one."""


def sign(octets: bytes, signer: Signer) -> str:
    """Return the value of :data:`HEADER` for a body."""
    protected, _, signature = jws.compact(jws.protected_header(signer, TYPE), octets, signer).split(".")
    return f"{protected}..{signature}"


def verify(signature: str, octets: bytes, keys: Mapping[str, VerifyingKey]) -> str:
    """
    Check the signature of a body.

    :param keys: who may have signed, by ``kid``.
    :return: the ``kid`` of the key that signed.
    :raises agtphost.identity.jws.JWSError: for everything but a signature of one of ``keys`` over ``octets``.
    """
    parts = signature.split(".")
    if len(parts) != 3 or parts[1]:
        raise jws.JWSError("malformed", "the signature is not a JWS with detached content")
    whole = f"{parts[0]}.{encode(octets).decode('ascii')}.{parts[2]}"
    header = jws.verify_covering(whole, octets, keys, typ=TYPE)
    if header is None:
        raise jws.JWSError("signature", "the signature covers another document")
    return str(header["kid"])
