"""``[mcp.front]`` for tests: its section, its clients' tokens, and a way to it for programs that have no credential."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.system.hosting import Host


def token_of(name: str) -> str:
    """The token of a client of these tests."""
    return f"token-of-{name}-".ljust(40, "x")


def front(port: int, clients: Mapping[str, str], *lines: str, secure: bool = False) -> str:
    """
    The section, and those of its clients.

    :param clients: the agent of each, by name.
    """
    listen = f"ssl:{port}:interface=127.0.0.1" if secure else f"tcp:{port}:interface=127.0.0.1"
    section = ["", "[mcp.front]", f'listen = "{listen}"', *lines, ""]
    for name, agent in clients.items():
        section += ["[[http.client]]", f'name = "{name}"', f'token = "file:{name}.token"', f'agent = "{agent}"', ""]
    return "\n".join(section)


def write_tokens(folder: Path, names: Mapping[str, str]) -> None:
    """The files of the tokens, beside the configuration."""
    for name in names:
        file = folder / f"{name}.token"
        file.write_text(token_of(name))
        file.chmod(0o600)


class Porter:
    """
    Carries plain HTTP to the front, each request with a token, or over TLS with a certificate.

    :param way: where programs connect.
    :param port: of the front.
    :param secure: the client's side of TLS; None: what it carries on is plain as well.
    """

    def __init__(self, way: int, port: int, token: str = "", secure: ssl.SSLContext | None = None) -> None:
        self._target, self._secure = port, secure
        self._field = f"Authorization: Bearer {token}\r\n".encode() if token else b""
        self.port = way
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Porter:
        self._thread.start()
        assert self._up.wait(120)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._carry, "127.0.0.1", self.port))
        self._up.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            name = "localhost" if self._secure is not None else None
            there, back = await asyncio.open_connection(
                "127.0.0.1", self._target, ssl=self._secure, server_hostname=name
            )
        except OSError:
            writer.close()
            return
        ways = [asyncio.ensure_future(self._requests(reader, back)), asyncio.ensure_future(_octets(there, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if not ways[1].done():
            # Who asked and says no more still waits for its answer, which comes later over TLS than over TCP.
            await asyncio.wait(ways[1:], timeout=5)
        for way in ways:
            way.cancel()
        for each in (writer, back):
            each.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, rest = head.split(b"\r\n", 1)
                writer.write(first + b"\r\n" + self._field + rest)
                fields = dict(line.lower().split(b":", 1) for line in rest.split(b"\r\n") if b":" in line)
                if b"chunked" in fields.get(b"transfer-encoding", b""):
                    writer.write(await reader.readuntil(b"0\r\n\r\n"))
                else:
                    writer.write(await reader.readexactly(int(fields.get(b"content-length", b"0"))))
                await writer.drain()


async def _octets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while octets := await reader.read(65536):
            writer.write(octets)
            await writer.drain()


def certificate_of(host: Host, agent: str) -> ssl.SSLContext:
    """The client's side of TLS, with an agent's certificate; empty: with none."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    if agent:
        folder = host.state / "agents" / agent
        context.load_cert_chain(folder / "agent.pem", folder / "agent.key")
    return context


@contextmanager
def porter(way: int, port: int, token: str = "", secure: ssl.SSLContext | None = None) -> Iterator[str]:
    """Where programs reach a front through a porter, without the path."""
    with Porter(way, port, token, secure) as carrying:
        yield f"http://127.0.0.1:{carrying.port}"
