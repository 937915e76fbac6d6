"""
Continuation-Tokens of lists: core v08 section 5.5.4.

A list that is longer than an answer comes with a token, which is presented
with the same request to have the next part. The token is a sealed note to the
host itself: nothing is kept for it, only the host can read or make one, and it is
good for the caller and the query that it was made for alone, for a while.

The key is derived from the host's signing key, so that a token outlives a restart and is read by each process of a
host. Where another signing key follows, tokens of the one before are read until they end. The private half of the old
signing key is not kept: for a process that starts later, the store has the keys of earlier tokens, sealed with the new
one.

Each token has a random nonce of 96 bits. By NIST SP 800-38D one key may seal 2**32 of them, which is 1,000 a second for
49 days. Beyond that the chance of two equal nonces exceeds 2**-32, and the signing key has to be rotated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.canonical import CanonicalError, canonical
from agtphost.identity.encoding import decode, encode
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

HEADER = "Continuation-Token"
PARAMETER = "continuation_token"
"""The same as a parameter, for callers that do not write header fields."""

LIFE = 600
"""Seconds that a token is good for."""

LONGEST = 1_024
"""Characters of a token."""

LABEL = "continuation"

_NONCE = 12


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a list."""

    items: Sequence[Any]
    headers: tuple[tuple[str, str], ...] = ()
    """The Continuation-Token, where there is more."""


def continuation_key(key: SigningKey, server_id: str) -> bytes:
    """Return the key of a host's tokens, as all processes with this signing key and ``server_id`` have it."""
    return key.derive(f"{LABEL} {server_id}")


def seal_key(key: bytes, earlier: bytes) -> str:
    """Return a key of earlier tokens, which only a process with the present key can read."""
    nonce = os.urandom(_NONCE)
    return encode(nonce + AESGCM(key).encrypt(nonce, earlier, LABEL.encode())).decode("ascii")


def unseal_key(key: bytes, sealed: str) -> bytes:
    """
    Return what :func:`seal_key` was given.

    :raises ValueError: it was sealed with another key, or is damaged.
    """
    octets = decode(sealed)
    try:
        return AESGCM(key).decrypt(octets[:_NONCE], octets[_NONCE:], LABEL.encode())
    except InvalidTag:
        raise ValueError("the key of earlier tokens was sealed with another key") from None


class Continuations:
    """
    Makes tokens, and reads them.

    :param key: 32 octets; None makes one, and tokens then end with the process.
    :param now: seconds since the epoch.
    :param find_earlier: returns the keys of tokens from before the newest signing key, as long as there may be some.
    """

    def __init__(
        self,
        key: bytes | None = None,
        now: Callable[[], float] = time.time,
        find_earlier: Callable[[], Sequence[bytes]] = tuple,
    ) -> None:
        self._sealed = AESGCM(key or os.urandom(32))
        self._find_earlier = find_earlier
        self._earlier: tuple[tuple[AESGCM, float], ...] = ()
        self._now = now

    def adopt(self, key: bytes) -> None:
        """Seal with another key from now on; tokens of the earlier ones are read until they end."""
        now = self._now()
        alive = (each for each in self._earlier if each[1] > now)
        self._earlier = ((self._sealed, now + LIFE + 1), *alive)
        self._sealed = AESGCM(key)

    def position(self, context: BuiltInContext) -> Any:
        """
        Return the position where the requested part begins, as given to :meth:`token`; None at the beginning.

        :raises Refusal: 422 for a token that is none, or was not made for this caller and query, or has ended.
        """
        text = context.headers.get(HEADER.lower()) if context.headers is not None else None
        named = context.input.get(PARAMETER)
        if text is None:
            text = named
        if text is None:
            return None
        if not isinstance(text, str) or len(text) > LONGEST or (named is not None and named != text):
            raise _invalid()
        try:
            octets = decode(text)
            note = jsontext.decode(self._decrypt(octets, _binding_of(context)))
        except (ValueError, InvalidTag):
            raise _invalid() from None
        if note["until"] < self._now():
            raise _invalid()
        return note["from"]

    def _decrypt(self, octets: bytes, binding: bytes) -> bytes:
        """
        Return what a token says.

        :raises InvalidTag: no key in use sealed it, for this binding.
        :raises ValueError: it is too short.
        """
        nonce, sealed = octets[:_NONCE], octets[_NONCE:]
        for key, until in self._earlier:
            if until > self._now():
                with suppress(InvalidTag):
                    return key.decrypt(nonce, sealed, binding)
        with suppress(InvalidTag):
            return self._sealed.decrypt(nonce, sealed, binding)
        for earlier in self._find_earlier():
            with suppress(InvalidTag):
                return AESGCM(earlier).decrypt(nonce, sealed, binding)
        raise InvalidTag

    def token(self, context: BuiltInContext, position: Any) -> str:
        """Return a token for the part of this caller's list that begins after ``position``, which is any small JSON."""
        note = jsontext.encode({"from": position, "until": int(self._now()) + LIFE})
        nonce = os.urandom(_NONCE)
        octets = nonce + self._sealed.encrypt(nonce, note, _binding_of(context))
        return encode(octets).decode("ascii")

    def header(self, context: BuiltInContext, position: Any) -> tuple[tuple[str, str], ...]:
        """Return the response field with the token of :meth:`token`."""
        return ((HEADER, self.token(context, position)),)

    def part(self, context: BuiltInContext, listed: Sequence[Any], limit: int, key: Callable[[Any], Any]) -> Part:
        """
        Return the part of a whole list that the call asks for.

        :param listed: in the order of ``key``.
        :param key: JSON that tells an item from all others and orders them, so that parts neither repeat nor leave
            out what stays while other items come and go.
        """
        after = self.position(context)
        rest = [item for item in listed if after is None or _sort_items(key(item)) > _sort_items(after)]
        items = rest[:limit]
        more = len(rest) > limit
        return Part(items=items, headers=self.header(context, key(items[-1])) if more else ())


def _sort_items(key: Any) -> Any:
    return tuple(key) if isinstance(key, (list, tuple)) else key


def _binding_of(context: BuiltInContext) -> bytes:
    """Return the digest that binds a token to its caller, certificate and parameters."""
    caller = context.owner
    certificate = context.peer.certificate if context.peer is not None else None
    asked: Mapping[str, Any] = {name: value for name, value in context.input.items() if name != PARAMETER}
    try:
        octets = canonical(
            {
                "caller": caller,
                "key": "" if caller or certificate is None else certificate.fingerprint,
                "method": context.method,
                "path": context.path,
                "agent": "" if context.agent is None else context.agent.agent_id,
                "input": asked,
            }
        )
    except CanonicalError:
        raise _invalid() from None
    return sha256(octets).digest()


def _invalid() -> Refusal:
    return Refusal(Reason.CONTINUATION_TOKEN_INVALID, details={"parameter": PARAMETER})
