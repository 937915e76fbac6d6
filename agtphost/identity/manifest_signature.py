"""
The signature of a server manifest: AGTP-API section 8.8.

A JWS over the canonical form of everything else in the manifest (companion section 3.3).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from agtphost.identity import jws
from agtphost.identity.cached_encoding import UnescapedText, canonical_pieces
from agtphost.identity.canonical import canonical
from agtphost.identity.keys import Signer, VerifyingKey
from agtphost.vocabulary.steps import run_to_end

SIGNATURE = "manifest_signature"
"""The member that holds it."""


def sign_manifest(manifest: Mapping[str, Any], signer: Signer | None) -> dict[str, Any]:
    """
    Return a manifest with its signature.

    :param signer: None leaves the member null.
    """
    return run_to_end(signing(manifest, signer))


def signing(
    manifest: Mapping[str, Any], signer: Signer | None, known: bytes | None = None
) -> Generator[None, None, dict[str, Any]]:
    """
    Return a manifest with its signature, made in steps of some milliseconds, for manifests of megabytes.

    :param known: the signature of :func:`signature_of`, where it was made before.
    """
    body = {name: value for name, value in manifest.items() if name != SIGNATURE}
    if signer is None:
        return {**body, SIGNATURE: None}
    covered = yield from _covering(body, signer)
    signature = signer.sign(covered) if known is None else known
    yield
    return {**body, SIGNATURE: UnescapedText(jws.append_signature(covered, signature))}


def signature_of(manifest: Mapping[str, Any], signer: Signer) -> Generator[None, None, bytes]:
    """
    Return the signature alone, in steps: with it :func:`signing` makes the signed manifest again.

    Of a manifest of many parts the signed ones would take twice the room of all endpoints.
    """
    body = {name: value for name, value in manifest.items() if name != SIGNATURE}
    covered = yield from _covering(body, signer)
    return signer.sign(covered)


def _covering(body: Mapping[str, Any], signer: Signer) -> Generator[None, None, bytes]:
    payload = b"".join(canonical_pieces(body))
    yield
    covered = jws.build_signing_input(jws.protected_header(signer, jws.MANIFEST_TYPE), payload)
    yield
    return covered


def verify_manifest(manifest: Mapping[str, Any], keys: Mapping[str, VerifyingKey]) -> None:
    """
    Check that a manifest is what its signature covers.

    :param manifest: whose members may be :class:`~agtphost.identity.cached_encoding.EncodedArray`.
    :param keys: by ``kid``; from somewhere other than the manifest itself, or it proves nothing.
    :raises agtphost.identity.jws.JWSError: where it is unsigned, or signed otherwise.
    """
    signature = manifest.get(SIGNATURE)
    if not isinstance(signature, str):
        raise jws.JWSError("unsigned", "the manifest is not signed")
    members = {name: value for name, value in manifest.items() if name != SIGNATURE}
    body = b"".join(canonical_pieces(members)) if all(map(str.isascii, members)) else canonical(members)
    if jws.verify_covering(signature, body, keys, typ=jws.MANIFEST_TYPE) is not None:
        return
    covered = jws.verify(signature, keys, typ=jws.MANIFEST_TYPE)
    if canonical(covered) != body:
        raise jws.JWSError("signature", "the manifest is not the one that was signed")
