"""Send the checkpoints of this host's log to its witnesses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.merkle import Tiles, Tree
from agtphost.audit.remote_witness import Answer, RemoteWitness, WitnessUnreachable
from agtphost.client import ClientError, Reply
from agtphost.client.client import Client
from agtphost.client.sync import Client as BlockingClient
from agtphost.config import Config
from agtphost.config.witness_settings import WitnessHost
from agtphost.iagtp import IRecordStore
from agtphost.identity.key_history import every_key, statements_of
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.identity.trust import issuer_keys
from agtphost.stores import StoreError
from agtphost.vocabulary.foreign_errors import explain

START_SECONDS = 5.0
"""Timeout of the question at start, which delays the start."""

CALL_SECONDS = 30.0
KEYS_SECONDS = 600.0
"""Seconds after which a witness's keys are fetched again."""

PATH = "/checkpoints"

log = Logger()


class WitnessTransport:
    """
    A client of one witness over AGTP.

    :param settings: certificate, authority and key.
    :param known: the keys it cosigns with; fetched from it if empty.
    """

    def __init__(self, reactor: Any, settings: WitnessHost, known: Iterable[VerifyingKey]) -> None:
        self._reactor = reactor
        self._uri = settings.uri
        self._options: dict[str, Any] = {
            "trust": settings.ca,
            "cert": settings.cert,
            "key": settings.key,
            "connections": 1,
        }
        self._client: Client | None = None
        self._known = tuple(known)
        self._fetched_keys: tuple[VerifyingKey, ...] = ()
        self._fetched_at = 0.0

    def last(self, origin: str) -> Answer:
        try:
            with BlockingClient(**self._options, connect_timeout=START_SECONDS, timeout=START_SECONDS) as client:
                return _answer(client.call(self._uri, "QUERY", PATH, {"origin": origin}))
        except ClientError as error:
            raise WitnessUnreachable(str(error)) from None

    async def submit(self, origin: str, attestation: Mapping[str, Any]) -> Answer:
        given = {"target_id": origin, "status": "accepted", "attestation": attestation}
        try:
            return _answer(await self._connect().call(self._uri, "CONFIRM", PATH, given))
        except ClientError as error:
            raise WitnessUnreachable(str(error)) from None

    async def keys(self) -> Iterable[VerifyingKey]:
        if self._known:
            return self._known
        now = self._reactor.seconds()
        if not self._fetched_keys or now - self._fetched_at > KEYS_SECONDS:
            try:
                self._fetched_keys = tuple((await self._connect().fetch_signing_keys(self._uri)).in_use)
            except ClientError as error:
                raise WitnessUnreachable(f"its signing keys could not be fetched: {error}") from None
            self._fetched_at = now
        return self._fetched_keys

    @property
    def known_keys(self) -> tuple[VerifyingKey, ...]:
        """The witness's keys, as far as they were configured or fetched."""
        return self._known or self._fetched_keys

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()

    def _connect(self) -> Client:
        if self._client is None:
            self._client = Client(self._reactor, **self._options, timeout=CALL_SECONDS)
        return self._client


def _answer(reply: Reply) -> Answer:
    """Return the status of a reply, and its result, or the body of the refusal."""
    shown = reply.result if reply.ok else reply.document
    return reply.status, shown if isinstance(shown, Mapping) else {}


def witness_settings(config: Config) -> tuple[object, ...]:
    """Return what :class:`Witnesses` are made from."""
    audit = config.audit
    return audit.witnesses, audit.witness_host, audit.witness_required, audit.witness_seconds


class Witnesses(Service):
    """
    A service for the remote witnesses of this host.

    :param key: signs the checkpoints.
    :param records: the source of proofs, and of the newest checkpoint at start.
    :param cosigned: called with the size and signature line of each cosignature.
    :raises agtphost.stores.StoreError: a witness's settings cannot be used.
    """

    name = "witnesses"

    def __init__(
        self,
        reactor: Any,
        config: Config,
        key: SigningKey | None,
        records: IRecordStore,
        cosigned: Callable[[int, str], object],
    ) -> None:
        audit = config.audit
        self.settings = witness_settings(config)
        settings = {entry.uri: entry for entry in audit.witness_host}
        self._records = records
        self._transports: list[WitnessTransport] = []
        self.witnesses: list[RemoteWitness] = []
        for uri in audit.witnesses if key is not None else ():
            entry = settings.get(uri) or WitnessHost(uri=uri)
            transport = WitnessTransport(
                reactor, entry, read_keys(config, entry.signing_key, "[[audit.witness_host]] signing_key")
            )
            self._transports.append(transport)
            self.witnesses.append(
                RemoteWitness(
                    uri,
                    origin=config.host.server_id,
                    keys=() if key is None else every_key(key),
                    reactor=reactor,
                    transport=transport,
                    prove=self._prove,
                    cosigned=cosigned,
                    links=partial(_succession, key),
                    required=audit.witness_required,
                    seconds=audit.witness_seconds,
                )
            )

    def _prove(self, first: int, second: int) -> Awaitable[Sequence[bytes]]:
        def prove(tiles: Tiles) -> Sequence[bytes]:
            return Tree(tiles, second).consistency(first)

        return self._records.read_proof(prove)

    def startService(self) -> None:
        """Offer the newest checkpoint: the witness may have been unavailable before."""
        super().startService()  # type: ignore[no-untyped-call]
        if self.witnesses:
            offering = Deferred.fromCoroutine(self._offer())
            offering.addErrback(lambda failure: log.failure("no checkpoint was offered", failure=failure))

    async def _offer(self) -> None:
        row = await self._records.checkpoint()
        if row is not None:
            for witness in self.witnesses:
                witness.offer(checkpoint.read(row.note))

    def stopService(self) -> Deferred[None]:
        """Stop sending, and close the connections."""
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        for witness in self.witnesses:
            witness.stop()
        for transport in self._transports:
            await transport.close()


def _succession(key: SigningKey | None, issued: Checkpoint) -> list[dict[str, str]]:
    """Return the succession statements from this host's first key to the one that signed a checkpoint."""
    if key is None:
        return []
    _, signers = checkpoint.verify_signers(issued.note, every_key(key))
    return statements_of(key, signers[0])


def read_keys(config: Config, text: str | None, place: str) -> Iterable[VerifyingKey]:
    """
    Return the keys of a text of the configuration; none without a text.

    :param place: the key that has the text, for messages.
    :raises StoreError: they cannot be read.
    """
    if text is None:
        return ()
    try:
        return issuer_keys((text,), config.folder)
    except (KeyFormatError, OSError) as error:
        raise StoreError(f"{place} cannot be read: {explain(error)}") from error
