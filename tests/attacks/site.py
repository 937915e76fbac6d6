"""
A production host as ``agtp init --production`` makes it, with what attacks need.

Beside what the command writes there are the sample endpoints and the sample MCP server, an A2A front, a well-known
listener, and three callers of three owners. ``demo`` and ``other`` are for attackers, ``honest`` is for nobody else.
Loopback is not exempt from the limits per address, as no address is in production: honest callers come from
``HONEST_ADDRESS``, attackers from 127.0.0.1 or wherever they like.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests import forking
from tests.attacks.cores import bring
from tests.system.hosting import ETC, Host, agtp, free_port

HONEST_ADDRESS = "127.0.0.2"
CALLERS = ("demo", "other", "honest")

_MORE = """
[limits]
exempt_addresses = []

[wellknown]
listen = "ssl:{wellknown}:interface=127.0.0.1"

[a2a.front]
listen = "ssl:{front}:interface=127.0.0.1"
agent_id = "{agent_id}"
tokens = ["file:front.token"]
timeout = 20

[[a2a.front.agent]]
name = "assistant"
method = "ECHO"
path = "/text"
answer = "text"
"""


class Site:
    """A host of this kind that runs; what attacks see of it is :class:`tests.attacks.attack.Target`."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.elsewhere = 0
        """Messages of other programs that arrived; those of this one are counted by :mod:`tests.attacks.reach`."""

        text = host.config.read_text()
        self._ports = {name: int(port) for name, port in re.findall(r"# (\w+) port ([0-9]+)", text)}
        self.quic = "\n[quic]\nenabled = true" in text
        """Whether it listens for QUIC, at the same port."""

    @property
    def port(self) -> int:
        return self.host.port

    @property
    def state(self) -> Path:
        return self.host.state

    @property
    def config(self) -> Path:
        return self.host.config

    @property
    def front(self) -> int:
        return self._ports["front"]

    @property
    def wellknown(self) -> int:
        return self._ports["wellknown"]

    @property
    def log(self) -> Sequence[str]:
        return self.host.lines

    def arrived(self, messages: int) -> None:
        self.elsewhere += messages

    @property
    def pid(self) -> int:
        return self.host.process.pid


def made(folder: Path) -> Path:
    """
    Make the deployment, once; copies of it are hosts of their own.

    :return: its ``host.toml``, in which the ports are still to be filled in: :func:`copied`.
    """
    place = folder / "site"
    server = f"files={shlex.join(forking.mcp_server('mcp/files_server.py', 'mcp/files'))}"
    words = ("--production", "--server-id", "localhost", "--port", "4480", "--mcp", server)
    _succeed("init", str(place), *words)
    # Nobody sits here who would approve the calls of honest callers; what waits for a person is attacked by itself.
    amend(place, "approvals", "irreversible = false")
    for name in ("endpoints", "handlers", "mcp", "proposals", "recipes.toml"):
        _copy(ETC / name, place / name)
    recipes = '\n[recipes]\nfile = "recipes.toml"\n\n[policies]\nsynthesis_enabled = true\n'
    recipes += "".join(
        f'\n[[data_class]]\nname = "{name}"\n' for name in ("library-books", "room-reservations", "plain-texts")
    )
    config = place / "host.toml"
    config.write_text(config.read_text() + recipes)
    for name in CALLERS:
        _succeed("agent", "new", name, "--scope", "*:*", "--owner", f"Owner of {name}", cwd=place)
    token = place / "front.token"
    token.touch(mode=0o600)
    token.write_text("a-token-of-the-front-0123456789\n")
    echo = place / "endpoints" / "text.toml"
    echo.write_text('min_assurance = "gateway"\n' + echo.read_text())
    return config


def copied(template: Path, folder: Path) -> Path:
    """A copy of a deployment with ports of its own; its ``host.toml``."""
    shutil.copytree(template.parent, folder)
    config = folder / "host.toml"
    front, wellknown = free_port(), free_port()
    document = (folder / "state" / "agents" / "demo" / "document.json").read_text()
    found = re.search(r'"agent_id": ?"([0-9a-f]{64})"', document)
    assert found is not None, "the document of demo has no agent_id"
    more = _MORE.format(front=front, wellknown=wellknown, agent_id=found.group(1))
    text, found_ports = re.subn(r"(?m)^port = [0-9]+$", f"port = {free_port()}", config.read_text(), count=1)
    assert found_ports == 1, "the deployment says its port"
    config.write_text(f"# front port {front}\n# wellknown port {wellknown}\n{text}{more}")
    return config


def amend(folder: Path, table: str, lines: str) -> None:
    """
    Add keys to a table of ``host.toml``, which may be there already, or add the table.

    :param folder: the directory of ``host.toml``, as ``Attack.configure`` gets it.
    :param table: such as ``limits``.
    :param lines: TOML; a key that the table has is replaced.
    """
    file, head = folder / "host.toml", f"[{table}]"
    before, found, after = file.read_text().partition(f"\n{head}\n")
    if not found:
        file.write_text(f"{before}\n{head}\n{lines.strip()}\n")
        return
    names = set(re.findall(r"^(\w+) *=", lines, re.MULTILINE))
    own, _, rest = after.partition("\n[")
    kept = [line for line in own.split("\n") if line.split("=")[0].strip() not in names]
    rest = f"\n[{rest}" if rest else ""
    file.write_text("\n".join([f"{before}\n{head}", lines.strip(), *kept]) + rest)


@contextmanager
def serving(config: Path, core: int | None, prefix: Sequence[str] = ()) -> Iterator[Site]:
    """
    The host, ready, with its MCP server.

    :param core: the one it runs on, its children included; None: on any.
    """
    host = Host(config, prefix=prefix)
    bring(host.process.pid, core)
    try:
        yield Site(host.wait())
    finally:
        if host.process.poll() is None:
            try:
                host.stop()
            except Exception:
                host.kill()
                raise


def _succeed(*words: str, cwd: Path | None = None) -> None:
    done = agtp(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        shutil.copy(source, target)
    else:
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
