"""A blocking client of aioquic on a real UDP socket; to be used in a thread, or beside a host of another process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicProtocolVersion

PATIENCE = 60.0
"""Seconds that a client waits for anything."""


class BlockingQuic:
    """One connection, whose calls are made one after the other."""

    def __init__(self, trust: Path, port: int, *, certificate: Path | None = None, key: Path | None = None) -> None:
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=["agtp"],
            server_name="localhost",
            supported_versions=[QuicProtocolVersion.VERSION_1],
        )
        configuration.load_verify_locations(cafile=str(trust))
        if certificate is not None:
            configuration.load_cert_chain(certificate, key)
        self._to = ("127.0.0.1", port)
        self._core = QuicConnection(configuration=configuration)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(self._to)
        self._core.connect(self._to, now=time.monotonic())

    def __enter__(self) -> BlockingQuic:
        return self

    def __exit__(self, *exception: object) -> None:
        self._core.close()
        self._send()
        self._socket.close()

    def call(self, octets: bytes, within: Callable[[], object] = lambda: None) -> bytes:
        """
        Send a request on a stream of its own, and return the whole answer.

        :param within: called once the answer has begun; nothing is read or acknowledged meanwhile.
        """
        number = self._core.get_next_available_stream_id()
        self._core.send_stream_data(number, octets, end_stream=True)
        answer, end = bytearray(), time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._send()
            due = self._core.get_timer()
            self._socket.settimeout(max(0.001, min(1.0, (due or end) - time.monotonic())))
            try:
                self._core.receive_datagram(self._socket.recv(65536), self._to, now=time.monotonic())
            except TimeoutError:
                self._core.handle_timer(now=time.monotonic())
            while (event := self._core.next_event()) is not None:
                octets, is_first = self._octets(event, number), not answer
                if octets and is_first:
                    within()
                if octets:
                    answer += octets
                    end = time.monotonic() + PATIENCE
                if getattr(event, "end_stream", False) and getattr(event, "stream_id", -1) == number:
                    self._send()
                    return bytes(answer)
        raise AssertionError("no answer")

    def _octets(self, event: Any, number: int) -> bytes:
        if isinstance(event, events.ConnectionTerminated):
            raise ConnectionError(f"closed: {event}")
        if isinstance(event, events.StreamDataReceived) and event.stream_id == number:
            return event.data
        return b""

    def _send(self) -> None:
        for octets, _ in self._core.datagrams_to_send(now=time.monotonic()):
            self._socket.send(octets)
