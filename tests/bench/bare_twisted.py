"""The yardstick: a Twisted TLS server that answers every request with the same octets."""

from __future__ import annotations

import sys
from pathlib import Path

from twisted.internet import reactor, ssl
from twisted.internet.protocol import Factory, Protocol

REQUEST_END = b"\r\n\r\n"


class Fixed(Protocol):
    """Finds the end of each request by its Content-Length and answers it."""

    answer = b""

    def connectionMade(self) -> None:
        self.buffer = b""

    def dataReceived(self, data: bytes) -> None:
        self.buffer += data
        while True:
            head = self.buffer.find(REQUEST_END)
            if head < 0:
                return
            at = self.buffer.find(b"Content-Length: ", 0, head)
            end = head + 4
            if at >= 0:
                end += int(self.buffer[at + 16 : self.buffer.find(b"\r\n", at)])
            if len(self.buffer) < end:
                return
            self.buffer = self.buffer[end:]
            self.transport.write(self.answer)


def main() -> None:
    certificate, key, size = sys.argv[1:4]
    body = b"x" * int(size)
    Fixed.answer = b"AGTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    options = ssl.CertificateOptions(
        privateKey=ssl.KeyPair.load(Path(key).read_bytes(), 1).original,
        certificate=ssl.Certificate.loadPEM(Path(certificate).read_bytes()).original,
        raiseMinimumTo=ssl.TLSVersion.TLSv1_3,
    )
    port = reactor.listenSSL(0, Factory.forProtocol(Fixed), options, interface="127.0.0.1", backlog=1024)
    print(port.getHost().port, flush=True)
    reactor.run()


if __name__ == "__main__":
    main()
