"""
One request by qh3: ``PORT TRUST CERTIFICATE KEY``, and the request on standard input.

Prints JSON: the answer, or the code that the host closed the connection with.
"""

from __future__ import annotations

import json
import socket
import sys
import time

from qh3.quic import events  # type: ignore[import-not-found]
from qh3.quic.configuration import QuicConfiguration  # type: ignore[import-not-found]
from qh3.quic.connection import QuicConnection  # type: ignore[import-not-found]

PATIENCE = 30.0


def main() -> None:
    port, trust, certificate, key = sys.argv[1:]
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["agtp"], server_name="localhost")
    configuration.load_verify_locations(cafile=trust)
    configuration.load_cert_chain(certificate, key)
    core, address = QuicConnection(configuration=configuration), ("127.0.0.1", int(port))
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.connect(address)
    core.connect(address, now=time.monotonic())
    answer, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        while (event := core.next_event()) is not None:
            if isinstance(event, events.HandshakeCompleted):
                core.send_stream_data(core.get_next_available_stream_id(), sys.stdin.buffer.read(), end_stream=True)
            elif isinstance(event, events.ConnectionTerminated):
                print(json.dumps({"closed": event.error_code, "is_transport": event.frame_type is not None}))
                return
            elif isinstance(event, events.StreamDataReceived):
                answer += event.data
                if event.end_stream:
                    print(json.dumps({"answer": answer.decode()}))
                    core.close()
                    end = 0
        for octets, _ in core.datagrams_to_send(now=time.monotonic()):
            link.send(octets)
        due = core.get_timer()
        link.settimeout(max(0.001, min(end, end if due is None else due) - time.monotonic()))
        try:
            core.receive_datagram(link.recv(65536), address, now=time.monotonic())
        except TimeoutError:
            core.handle_timer(now=time.monotonic())


main()
