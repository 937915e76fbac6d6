"""
Manifests a client has read, and when they have to be read again.

A server says with ``AGTP-API-Version`` which manifest its answers follow (core
v08 section 7.6). A client that has read a server's manifest once compares that
number in every later answer, and reads the manifest again before its next call
when it changed. A client that never asked for a manifest relies on none, so
its calls are never preceded by anything.

No I/O: both clients share this.
"""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from agtphost.client.errors import VerificationFailed
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.terminal import escape
from agtphost.contract.manifest_parts import PartError, PartReader
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.manifest_signature import SIGNATURE, verify_manifest
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.lru import keep

VERSION = "agtp-api-version"

MAX_SERVERS = 1024
"""Servers that are remembered; beyond that the one that was read first is forgotten, with its pinned keys."""

MAX_TOKENS = 4_000_000
"""Values and names in one manifest: a thousand endpoints have some fifty thousand."""

_CHECK_HOST = "Check that an AGTP host listens there."
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=([0-9]{1,9})(?=$|[,\s])", re.ASCII)

REQUIRED = (
    *("agtp_version", "agtp_api_version", "document_version", "catalog_version"),
    *("server", "endpoints", "policies"),
)
"""Members without which a document is not a manifest (AGTP-API section 8.2)."""


class ManifestWarning(UserWarning):
    """A manifest that is used all the same: unsigned, wrongly signed, or of a server that went backwards."""


class SignatureState(Enum):
    """The states of a manifest's signature (AGTP-API section 8.8)."""

    VERIFIED = "verified"
    """By a key that was given for it."""

    UNCHECKED = "unchecked"
    """There is one, and no key to check it with."""

    ABSENT = "absent"
    INVALID = "invalid"


@dataclass(frozen=True, kw_only=True)
class ServerManifest:
    """A manifest as read; in this revision of the drafts it is used even if its signature fails (API-082)."""

    document: Mapping[str, Any]
    etag: str | None
    document_version: str
    api_version: str | None
    """The ``AGTP-API-Version`` that came with it; None where the server sends none."""

    expires: float
    """On the client's clock: until then it is used without being asked for again."""

    signature: SignatureState
    warning: str = ""
    """What is wrong with it; empty where nothing is."""

    @property
    def server_id(self) -> str:
        """The ``server.server_id``, unverified."""
        server = self.document.get("server")
        found = server.get("server_id") if isinstance(server, dict) else None
        return found if isinstance(found, str) else ""


@dataclass(slots=True)
class _Server:
    manifest: ServerManifest
    keys: Mapping[str, VerifyingKey]
    version: str | None


class Manifests:
    """The manifests of one client, by destination."""

    def __init__(self) -> None:
        self._servers: OrderedDict[Destination, _Server] = OrderedDict()

    def note(self, call: PreparedCall, reply: Reply) -> None:
        """Remember the version that an answer follows; servers whose manifest was never read are left alone."""
        known = self._servers.get(call.destination)
        version = reply.headers.get(VERSION)
        if known is not None and version is not None:
            known.version = version

    def stale(self, call: PreparedCall) -> bool:
        """Return whether a call has to wait until the manifest of its server was read again (AGTP-270)."""
        known = self._servers.get(call.destination)
        return known is not None and known.version != known.manifest.api_version and not _asks_for_it(call)

    def fresh(
        self, destination: Destination, keys: Mapping[str, VerifyingKey] | None, now: float
    ) -> ServerManifest | None:
        """
        Return a manifest that can be used without asking.

        :param keys: those it has to have been checked with; None: any.
        """
        known = self._servers.get(destination)
        if known is None or known.version != known.manifest.api_version or now >= known.manifest.expires:
            return None
        return known.manifest if keys is None or known.keys == keys else None

    def keys_of(self, destination: Destination) -> Mapping[str, VerifyingKey]:
        """Return the keys that were given for a server's manifest; empty where none were."""
        known = self._servers.get(destination)
        return {} if known is None else known.keys

    def reader(self, destination: Destination, keys: Mapping[str, VerifyingKey] | None) -> ManifestReader:
        """
        Return what reads a server's manifest.

        :param keys: that may have signed it; None: those given the last time.
        """
        return ManifestReader(keys if keys is not None else self.keys_of(destination))

    def adopt(self, destination: Destination, reader: ManifestReader, now: float) -> ServerManifest:
        """
        Take a manifest that was read.

        :raises VerificationFailed: where the parts are not those of one manifest. A signature alone never makes it
            fail.
        """
        known = self._servers.get(destination)
        reply = reader.reply
        assert reply is not None, "something was read"
        etag = reply.headers.get("etag")
        unchanged = known is not None and etag is not None and etag == known.manifest.etag and known.keys == reader.keys
        if known is not None and unchanged:
            # The same octets with the same keys: what was found out about them holds.
            version = reply.headers.get(VERSION)
            manifest = replace(known.manifest, api_version=version, expires=now + max_age(reply))
        else:
            manifest = reader.manifest(now)
        if known is not None and not manifest.warning and _went_back(known.manifest.api_version, manifest.api_version):
            manifest = replace(manifest, warning="The server's AGTP-API-Version went backwards.")
        server = _Server(manifest=manifest, keys=reader.keys, version=manifest.api_version)
        keep(self._servers, destination, server, MAX_SERVERS)
        if manifest.warning:
            warnings.warn(f"{destination}: {manifest.warning}", ManifestWarning, stacklevel=2)
        return manifest


class ManifestReader:
    """
    Reads a manifest answer by answer, each part checked when it came.

    :param keys: that may have signed it; each part is signed, and one wrong signature counts for all.
    """

    def __init__(self, keys: Mapping[str, VerifyingKey]) -> None:
        self.keys = keys
        self._parts = PartReader()
        self._state = SignatureState.UNCHECKED
        self._problem = ""
        self._version = ""
        self.reply: Reply | None = None
        """The first answer."""

    def add(self, reply: Reply) -> str | None:
        """
        Take the next answer.

        :return: the token of the part that follows; None where there is none.
        :raises VerificationFailed: where the answer is no manifest, or another part than was asked for.
        """
        document = read_manifest(reply)
        try:
            token = self._parts.add(document, len(reply.body))
        except PartError as error:
            raise not_whole(error) from None
        state, problem = _check_manifest(document, self._parts, self.keys)
        if self.reply is None or (problem and not self._problem):
            self._state, self._problem = state, problem
        if self.reply is None:
            self.reply = reply
            self._version = str(document["document_version"])
        return token

    def manifest(self, now: float = 0.0) -> ServerManifest:
        """
        Return what was read.

        :raises VerificationFailed: where the parts are not those of one manifest.
        """
        assert self.reply is not None, "something was read"
        try:
            document = self._parts.to_manifest()
        except PartError as error:
            raise not_whole(error) from None
        return ServerManifest(
            document=document,
            etag=self.reply.headers.get("etag"),
            document_version=self._version,
            api_version=self.reply.headers.get(VERSION),
            expires=now + max_age(self.reply),
            signature=self._state,
            warning=self._problem,
        )


def manifest_of(
    reply: Reply, keys: Mapping[str, VerifyingKey], now: float = 0.0, further: Sequence[Reply] = ()
) -> ServerManifest:
    """
    Return the manifest in an answer to ``DISCOVER /``, after a check of its signature.

    :param further: its parts behind the first one, in order; each is signed, and one wrong signature counts for all.
    :raises VerificationFailed: where the answer is none, or the parts are not those of one manifest.
    """
    reader = ManifestReader(keys)
    for each in (reply, *further):
        reader.add(each)
    return reader.manifest(now)


def read_manifest(reply: Reply) -> Mapping[str, Any]:
    """
    Return the manifest in an answer to ``DISCOVER /``, of any size.

    :raises VerificationFailed: if it is none.
    """
    try:
        document = jsontext.decode(reply.body, max_tokens=MAX_TOKENS)
    except jsontext.JSONTextError as error:
        raise VerificationFailed(f"The server's manifest is not JSON: {escape(str(error))}.", _CHECK_HOST) from None
    if not isinstance(document, dict):
        raise VerificationFailed("The server's manifest is not an object.", _CHECK_HOST)
    return document


def not_whole(error: PartError) -> VerificationFailed:
    """Return the error for parts that are not those of one manifest."""
    return VerificationFailed(
        f"The server's manifest is incomplete: {escape(str(error))}.",
        "Try again: it may have changed between its parts.",
    )


def max_age(reply: Reply) -> float:
    """Seconds for which an answer says that it may be kept; 0 where it does not say."""
    return cache_seconds(reply.headers.get("cache-control"), 0.0)


def cache_seconds(cache_control: str | None, otherwise: float) -> float:
    """``max-age`` of a Cache-Control value; ``no-store`` and ``no-cache`` are 0."""
    value = (cache_control or "").lower()
    if "no-store" in value or "no-cache" in value:
        return 0.0
    match = _MAX_AGE.search(value)
    return float(match[1]) if match is not None else otherwise


def _check_manifest(
    document: Mapping[str, Any], parts: PartReader, keys: Mapping[str, VerifyingKey]
) -> tuple[SignatureState, str]:
    missing = [name for name in REQUIRED if name not in document]
    if missing:
        raise VerificationFailed(
            f"The server's answer is not a manifest: it lacks {missing[0]}.", "Is this an AGTP host?"
        )
    if document.get(SIGNATURE) is None:
        return SignatureState.ABSENT, "The manifest is not signed."
    if not keys:
        return SignatureState.UNCHECKED, ""
    try:
        verify_manifest(parts.with_encoded_endpoints(document), keys)
    except JWSError as error:
        return SignatureState.INVALID, f"The manifest's signature does not verify: {escape(str(error))}."
    return SignatureState.VERIFIED, ""


def _asks_for_it(call: PreparedCall) -> bool:
    """Return whether a call is itself the reading of the manifest."""
    return call.request.method == "DISCOVER" and call.request.path == "/" and call.caller_id is None


def _went_back(before: str | None, after: str | None) -> bool:
    """Return whether a version that is a number became a smaller one, which no server may do (core v08 section 7.6)."""
    numbers = [int(text) for text in (before, after) if text is not None and _NUMBER.fullmatch(text)]
    return len(numbers) == 2 and numbers[1] < numbers[0]


__all__ = [
    "MAX_SERVERS",
    "REQUIRED",
    "ManifestWarning",
    "Manifests",
    "ServerManifest",
    "SignatureState",
    "cache_seconds",
    "manifest_of",
    "max_age",
    "read_manifest",
]
