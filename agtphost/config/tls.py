"""``[tls]``: the host's certificates, and what it asks of clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from agtphost.config.values import FilePath, Items, Line, Section, in_state

_SERVER_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII
)


def _server_name(value: str) -> str:
    name = value.lower()
    if _SERVER_NAME.fullmatch(name) is None:
        raise ValueError("must be a host name such as agents.example.com")
    return name


ServerName = Annotated[str, AfterValidator(_server_name)]
"""A host name as SNI has it, lower case."""


def _to_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, (str, Path)) else tuple(value) if isinstance(value, list) else value


Paths = Annotated[tuple[FilePath, ...], BeforeValidator(_to_tuple)]
"""One path, or a list of them."""


class TLSServer(Section):
    """An entry of ``[[tls.server]]``: a certificate for clients that ask for one name by SNI."""

    name: ServerName
    """What clients ask for by SNI: a host name."""

    certificate: FilePath
    """PEM: the certificate for that name, with its chain."""

    key: FilePath
    """PEM: its private key, which only its owner may read."""


class ClientAuthority(Section):
    """An entry of ``[[tls.client_authority]]``: an authority of clients' certificates, and whom it may vouch for."""

    file: FilePath
    """PEM: its certificate."""

    zones: Items[Line] = ()
    """Governance zones of the agents that it may vouch for; ``*`` is all."""

    issuers: Items[Line] = ()
    """Genesis issuers of further ones, by their keys: base64url, or ``file:PATH``."""


class TLS(Section):
    """The section ``[tls]``: the host's certificate, and what it asks of clients (design decision 3)."""

    client_auth: Literal["optional", "required", "none"] = "optional"
    """
    Whether clients are asked for a certificate: and may go without (``optional``), must have one, or are not asked.
    """

    certificate: FilePath = in_state("server.pem")
    """PEM: the host's certificate, with its chain."""

    key: FilePath = in_state("server.key")
    """PEM: its private key, which only its owner may read."""

    client_ca: FilePath = in_state("ca.pem")
    """The authority whose client certificates are accepted, and which vouches for every agent."""

    client_authority: Items[ClientAuthority] = ()
    """Several authorities instead, each with the agents that it may vouch for."""

    client_crl: Paths = ()
    """Revocation lists, PEM or DER; read again whenever a file changes. Empty: revocation is not checked."""

    crl_required: bool = True
    """Whether client certificates are refused while a list cannot be read or is out of date."""

    server: Items[TLSServer] = ()
    """Further certificates by the name that clients ask for."""

    @property
    def files(self) -> Iterator[Path]:
        """Every file that is read."""
        yield from (self.certificate, self.key)
        for server in self.server:
            yield from (server.certificate, server.key)
        if self.client_auth != "none":
            yield from self.client_files
            yield from self.client_crl

    @property
    def client_files(self) -> tuple[Path, ...]:
        """The files with the authorities of clients' certificates."""
        return tuple(authority.file for authority in self.client_authority) or (self.client_ca,)
