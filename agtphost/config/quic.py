"""``[quic]``: whether the host also listens for AGTP over QUIC."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agtphost.config.values import FilePath, Section


class QuicSection(Section):
    """
    The section ``[quic]``: AGTP over QUIC besides TLS, on a UDP port (``docs/quic``). Certificates, authorities and
    revocation lists are those of ``[tls]``, limits those of ``[limits]``. You probably do not need it.
    """

    enabled: bool = False
    """Whether the host listens for QUIC."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """The UDP port, at the address of ``[listen]``; 0: the number that TLS has."""

    streams: Annotated[int, Field(ge=1, le=128)] = 16
    """Requests that one connection may have open at a time."""

    retry: Literal["pressed", "always"] = "pressed"
    """
    When a client has to show that it receives at its address before it gets a handshake: ``always``, which costs one
    round trip, or once ``half_open`` handshakes are open or its address has its share (``pressed``).
    """

    half_open: Annotated[int, Field(ge=0, le=4096)] = 64
    """
    Handshakes that may be open before ``retry = "pressed"`` asks for this. One that fails counts for as long as it
    could have been open.
    """

    qlog: FilePath | None = None
    """
    A directory for a trace of each connection in qlog's format, for debugging; it is made for this user alone if it is
    missing. Traces have neither payloads nor keys. They slow a busy host down. A process writes 1,000 of them at most,
    100 of these of handshakes that failed, each of 16 MiB at most.
    """

    datagram_size: Annotated[int, Field(ge=1200, le=1452)] = 1200
    """Octets of a datagram. More than 1,200 only where you know that every path to your clients takes them."""
