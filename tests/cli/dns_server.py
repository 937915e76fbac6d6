"""A DNS server of one zone on loopback, for TXT records: ``python dns_server.py NAME=TEXT ...``; prints its port."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import Any

from twisted.internet import defer, reactor
from twisted.names import common, dns, error, server


class Texts(common.ResolverBase):
    """Answers TXT questions about the names it knows, and that there is no other name."""

    def __init__(self, texts: dict[bytes, list[bytes]]) -> None:
        super().__init__()
        self._texts = texts

    def _lookup(self, name: bytes, cls: int, type: int, timeout: Any) -> Any:
        found = self._texts.get(name.lower())
        if found is None:
            return defer.fail(error.DomainError(name))
        records = [
            # A text may come in parts of up to 255 octets.
            dns.RRHeader(name, dns.TXT, dns.IN, 60, dns.Record_TXT(text[:200], text[200:], ttl=60), auth=True)
            for text in found
        ]
        return defer.succeed((records if type == dns.TXT else [], [], []))


def main(given: list[str]) -> None:
    """Serve on a free port, the same for UDP and TCP, until stopped."""
    texts: dict[bytes, list[bytes]] = defaultdict(list)
    for each in given:
        name, _, text = each.partition("=")
        texts[name.encode()].append(text.encode())
    factory = server.DNSServerFactory(clients=[Texts(dict(texts))])
    stream = reactor.listenTCP(0, factory, interface="127.0.0.1")
    port = stream.getHost().port
    reactor.listenUDP(port, dns.DNSDatagramProtocol(factory), interface="127.0.0.1")
    print(port, flush=True)
    reactor.run()


if __name__ == "__main__":
    main(sys.argv[1:])
