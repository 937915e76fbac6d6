"""A session of the client on the network in virtual time that the listener's tests have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agtphost.client.conversation import CLIENT_LIMITS
from agtphost.client.errors import ClientError
from agtphost.client.quic.calls import QuicCall
from agtphost.client.quic.core import QuicCredentials, load_credentials
from agtphost.client.quic.session import ANSWER_SECONDS, QuicSession
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, Identity, PreparedCall, prepare
from agtphost.client.tls import TLSSettings
from agtphost.identity.chain_verification import ServerChainVerifier
from tests.protocols import authorities
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network

ADDRESS = ("198.51.100.7", 50_000)


def call_of(method: str = "QUERY", task: str = "task-1", body: bytes | None = None) -> PreparedCall:
    """A call to the host of the network."""
    more: dict[str, Any] = {} if body is None else {"body": body, "content_type": "text/plain"}
    return prepare("agtp://localhost", method, identity=Identity(), task_id=task, **more)


def credentials_of(site: Site, identity: authorities.Identity | None = None) -> QuicCredentials:
    """The site's authority, and a client certificate."""
    verifier = ServerChainVerifier(site.folder / "root.pem")
    if identity is None:
        return QuicCredentials(verifier=verifier)
    return QuicCredentials(verifier=verifier, chain=(identity.certificate, *identity.chain), key=identity.key)


def credentials_from(trust: Path, certificate: Path | None = None, key: Path | None = None) -> QuicCredentials:
    """Credentials from files."""
    return load_credentials(TLSSettings(trust=trust, cert=certificate, key=key))


class SessionClient:
    """
    A session, its timer and its datagrams.

    :param name: that is dialled.
    """

    def __init__(
        self,
        network: Network,
        credentials: QuicCredentials,
        *,
        name: str = "localhost",
        address: tuple[str, int] = ADDRESS,
        patience: float = ANSWER_SECONDS,
    ) -> None:
        self.network = network
        self.address = address
        self.session = QuicSession(
            Destination(name, 4480), credentials, CLIENT_LIMITS, HOST, network.clock.seconds(), patience
        )
        self.last: QuicCall | None = None
        """The call that was made last."""

        self.found: dict[QuicCall, list[Reply]] = {}
        """The replies to each call."""

        self.errors: dict[QuicCall, ClientError] = {}
        self._timer: Any = None
        network.receivers[address] = self._receive
        self.flush()

    @property
    def core(self) -> Any:
        """aioquic's side."""
        return self.session._core

    def connect(self) -> SessionClient:
        """Wait for the end of the handshake, or of the connection."""
        self.network.run(lambda: self.session.is_ready or self.session.fault)
        return self

    @property
    def replies(self) -> list[Reply]:
        """The replies to the call that was made last."""
        return [] if self.last is None else self.found.get(self.last, [])

    def ask(self, call: PreparedCall) -> QuicCall:
        """Begin a call."""
        self.last = self.session.ask(call, self.network.clock.seconds())
        self.flush()
        return self.last

    def wait(self, call: QuicCall | None = None, seconds: float = 60.0) -> Reply:
        """Return the final reply of a call, by default the one that was made last."""
        call = call or self.last
        assert call is not None
        self.network.run(lambda: not call.is_out, seconds)
        self.flush()
        if call in self.errors:
            raise self.errors[call]
        return self.found[call][-1]

    def call(self, call: PreparedCall) -> Reply:
        """Make a call."""
        self.ask(call)
        return self.wait()

    def give_up(self) -> None:
        """Cancel the call that was made last."""
        assert self.last is not None
        self.session.give_up(self.last)
        self.flush()

    def close(self) -> None:
        """End the connection."""
        self.session.close()
        self.flush()

    def flush(self) -> None:
        now = self.network.clock.seconds()
        for octets in self.session.datagrams(now):
            self.network.carry(octets, self.address, HOST)
        for call in self.session.take_changed():
            try:
                self.found[call] = self.found.get(call, []) + self.session.take(call)
            except ClientError as error:
                self.errors[call] = error
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        if self.session.fault is None and not self.core.is_closing:
            self._timer = self.network.clock.callLater(max(0.001, self.session.due - now), self._act)

    def _act(self) -> None:
        self.session.act_on_time(self.network.clock.seconds())
        self.flush()

    def _receive(self, octets: bytes, origin: Any) -> None:
        self.session.receive(octets, self.network.clock.seconds())
        self.flush()
