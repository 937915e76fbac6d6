"""What an attack is: who does what to a host, and what may come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MIB = 1024 * 1024

OVERTIME = 120.0
"""Seconds after its time until an attack that does not end is broken; whatever one waits for itself is shorter."""


class Target(Protocol):
    """The host under attack, as an attacker and the measurement see it."""

    @property
    def port(self) -> int:
        """Where the host speaks AGTP, on 127.0.0.1."""

    @property
    def state(self) -> Path:
        """The host's state directory: certificates and keys of the callers lie there."""

    @property
    def config(self) -> Path:
        """Its ``host.toml``."""

    @property
    def front(self) -> int:
        """Where its A2A front speaks HTTPS; a bearer token of it is in ``front.token`` beside ``host.toml``."""

    @property
    def wellknown(self) -> int:
        """Where it serves ``/.well-known/agtp`` over HTTPS."""

    @property
    def log(self) -> Sequence[str]:
        """The lines it has logged."""

    def arrived(self, messages: int) -> None:
        """So many messages that another program sent for the attack were taken up by the host."""

    @property
    def pid(self) -> int:
        """The process, for attacks that look at what it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack; ``run`` is bounded in count and in time, and stops by itself."""

    name: str
    """Unique, lower case with hyphens, as in ``docs/threats.rst``: ``yaml-nesting``."""

    who: str
    """``stranger`` (no certificate), ``agent``, ``upstream``, ``operator`` or ``fault``."""

    says: str
    """One sentence: what is done, and what must not come of it."""

    run: Callable[[Target, float], None]
    """Do it for at most so many seconds; raises AssertionError where an answer shows that the host gave way."""

    configure: Callable[[Path], None] | None = None
    """
    Change the directory of ``host.toml`` before the host starts; see :func:`tests.attacks.site.amend`. None where the
    host may be shared with others.
    """

    prepare: Callable[[Target], None] | None = None
    """Put into the host what is attacked, before anything is measured."""

    alone: bool = False
    """Whether the host is spoilt for others afterwards: an agent is revoked, a rate used up."""

    memory: int = 40 * MIB
    """Octets by which the host may grow at the most."""

    disk: int = 40 * MIB
    """Octets by which its state directory may grow at the most."""

    connections: bool = False
    """Whether its messages are the connections themselves, of which nobody waits for an answer."""

    slower: float = 2.0
    """Times the quiet p99 that an honest certified caller may see meanwhile."""

    lasts: float = 0.0
    """Seconds that it may take, whatever it is told; above 0 it is run by name alone, as ``--only`` gives it."""

    honest: bool = True
    """Whether honest callers call meanwhile. Without them, all that the disk grows by is the attack's."""
