"""What may be wrong with a host's QUIC, each as a change of one connection, and the cases that notice it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MethodType
from typing import Any

from aioquic.quic.events import StopSendingReceived
from aioquic.tls import CipherSuite, SessionTicket

from agtphost.conformance.cases.quic import TICKET_SECRET
from agtphost.identity.chain_verification import ChainRefused
from agtphost.protocols.quic.datagrams import QuicEndpoint
from agtphost.protocols.quic.link import QuicLink
from agtphost.vocabulary.quic_codes import Code

NO_NEGOTIATION = "no-version-negotiation"
"""The defect of a port; all others are those of a connection."""


@dataclass(frozen=True, kw_only=True)
class QuicDefect:
    """
    A defect.

    :param spoil: changes a connection that was just made.
    :param cases: those that notice it, without ``quic.``
    :param sometimes: those that notice it where packets arrive together.
    """

    spoil: Callable[[Any], object]
    cases: str
    sometimes: str = ""


def _accept_other_protocol(link: Any) -> None:
    link.core.configuration.alpn_protocols = ["agtp", "h3"]


def _refuse_by_another_alert(link: Any) -> None:
    def verify() -> Any:
        raise ChainRefused(42, "the wrong alert")

    link._verify = verify


def _accept_invented_ticket(link: Any) -> None:
    now = datetime.now(UTC)
    link.core._session_ticket_fetcher = lambda label: SessionTicket(
        age_add=0,
        cipher_suite=CipherSuite.AES_256_GCM_SHA384,
        not_valid_after=now + timedelta(hours=1),
        not_valid_before=now - timedelta(hours=1),
        resumption_secret=TICKET_SECRET,
        server_name="",
        ticket=label,
    )


def _wait_for_end(link: Any) -> None:
    take, arrived = link._take, {}

    def take_whole(event: Any) -> None:
        arrived[event.stream_id] = arrived.get(event.stream_id, b"") + event.data
        if event.end_stream:
            event.data = arrived[event.stream_id]
            take(event)

    link._take = take_whole


def _read_second_request(link: Any) -> None:
    link._settings = copy.copy(link._settings)
    object.__setattr__(link._settings, "one_request", link._settings.limits)


def _ignore_end(link: Any) -> None:
    take = link._take

    def take_endless(event: Any) -> None:
        event.end_stream = False
        take(event)

    link._take = take_endless


def _never_ask_to_stop(link: Any) -> None:
    link.core.stop_stream = lambda *parts: None


def _admit_unidirectional(link: Any) -> None:
    limit = link.core._local_max_streams_uni
    limit.value = limit.sent = 10


def _admit_every_stream(link: Any) -> None:
    core = link.core
    initialize = core._initialize

    def initialize_and_widen(peer_cid: bytes) -> None:
        initialize(peer_cid)
        core._local_max_streams_bidi.value = core._local_max_streams_bidi.sent = 1 << 20

    core._initialize = initialize_and_widen


def _take_datagrams(link: Any) -> None:
    link.core.configuration.max_datagram_frame_size = 65_536


def _serve_one_at_a_time(link: Any) -> None:
    take = link._take

    def take_first(event: Any) -> None:
        if event.stream_id in link._streams or all(each.has_final_answer for each in link._streams.values()):
            take(event)

    link._take = take_first


def _cancel_connection(link: Any) -> None:
    cancel = link._cancel

    def cancel_all(event: Any) -> None:
        cancel(event)
        if isinstance(event, StopSendingReceived):
            link.core.close(Code.CANCELLED)

    link._cancel = cancel_all


def _greet_nobody(link: Any) -> None:
    identify = link._identify

    def identify_as_greeted() -> None:
        identify()
        link._peer.greeted = True

    link._identify = identify_as_greeted


class _Stuck:
    """A port that answers a connection's client where it was at first."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._address: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)

    def transmit(self, octets: bytes, address: Any) -> None:
        self._address = self._address or address
        self._owner.transmit(octets, self._address)


def _answer_old_port(link: Any) -> None:
    link._owner = _Stuck(link._owner)


def _ignore_windows(link: Any) -> None:
    opened = link._open

    def open_wide(number: int) -> Any:
        link.core._streams[number].max_stream_data_remote = 1 << 40
        return opened(number)

    link._open = open_wide


def _mix_interim_answers(link: Any) -> None:
    held: list[tuple[int, bytes]] = []

    def send(self: QuicLink, number: int, octets: bytes) -> None:
        if b"/1.0 202 " in octets:
            # Those of a stream wait for one of another, whichever of the two requests is answered first.
            if not held or held[0][0] == number:
                held.append((number, octets))
                return
            octets = b"".join([*(each for _, each in held), octets])
            held.clear()
        QuicLink.send(self, number, octets)

    link.send = MethodType(send, link)


DEFECTS: Mapping[str, QuicDefect] = {
    "any-protocol": QuicDefect(spoil=_accept_other_protocol, cases="no-common-alpn"),
    "any-client-certificate": QuicDefect(
        spoil=lambda link: setattr(link, "_verify", lambda: None), cases="unknown-client-authority"
    ),
    "early-data": QuicDefect(spoil=_accept_invented_ticket, cases="early-data"),
    NO_NEGOTIATION: QuicDefect(spoil=lambda link: None, cases="unknown-version"),
    "waits-for-end": QuicDefect(spoil=_wait_for_end, cases="without-end second-request body-beyond-length"),
    "second-request-answered": QuicDefect(
        spoil=_read_second_request, cases="second-request body-beyond-length without-end interim-answers"
    ),
    "no-stop-sending": QuicDefect(spoil=_never_ask_to_stop, cases="second-request body-beyond-length"),
    "end-ignored": QuicDefect(spoil=_ignore_end, cases="end-within-request"),
    "unidirectional-streams": QuicDefect(spoil=_admit_unidirectional, cases="unidirectional-stream"),
    "unlimited-streams": QuicDefect(spoil=_admit_every_stream, cases="one-stream-too-many"),
    "datagram-frames": QuicDefect(spoil=_take_datagrams, cases="datagram-frame"),
    "one-at-a-time": QuicDefect(
        spoil=_serve_one_at_a_time,
        cases="concurrent-requests cancelled-request",
        sometimes="interim-answers supported-methods",
    ),
    "cancels-the-connection": QuicDefect(spoil=_cancel_connection, cases="cancelled-request"),
    "no-supported-methods": QuicDefect(spoil=_greet_nobody, cases="supported-methods"),
    "old-port-answered": QuicDefect(spoil=_answer_old_port, cases="new-port"),
    "windows-ignored": QuicDefect(spoil=_ignore_windows, cases="no-window"),
    "interim-answers-mixed": QuicDefect(spoil=_mix_interim_answers, cases="interim-answers"),
    "other-alert": QuicDefect(spoil=_refuse_by_another_alert, cases="no-certificate"),
}
"""The last lets no client in, so only its case can be run."""


def install(chosen: Callable[[], str]) -> None:
    """Give every new connection the chosen defect."""
    made, negotiated = QuicLink.__init__, QuicEndpoint._negotiate

    def make(self: QuicLink, *parts: Any, **more: Any) -> None:
        made(self, *parts, **more)
        if (defect := DEFECTS.get(chosen())) is not None:
            defect.spoil(self)

    def negotiate(self: QuicEndpoint, *parts: Any) -> None:
        if chosen() != NO_NEGOTIATION:
            negotiated(self, *parts)

    QuicLink.__init__ = make  # type: ignore[method-assign]
    QuicEndpoint._negotiate = negotiate  # type: ignore[method-assign]
