"""``[registry]``: cards of what can be called here and elsewhere (HAIDIP), and how agents elsewhere are reached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from agtphost.config import secret
from agtphost.config.faults import ConfigFault
from agtphost.config.http import HttpSection, find_base_url
from agtphost.config.values import (
    FilePath,
    HeaderValue,
    Items,
    Line,
    Network,
    Scope,
    Seconds,
    Section,
    Table,
    Text,
    form,
)
from agtphost.vocabulary.origins import origin_of
from agtphost.vocabulary.tomltext import Location

_OWN_FIELDS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"}
)
"""Fields that belong to the HTTP client."""

_HOST = r"(?:[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?"


def _origin(value: Any) -> str:
    text = secret.text_of(value).lower().rstrip("/")
    if text.startswith("http:"):
        raise ValueError(
            "is plain http, and agents are called over TLS alone: give the agent TLS, on this machine too, and name "
            'https://localhost:PORT here, its authority as ca, and "127.0.0.0/8" in allow_addresses'
        )
    if re.fullmatch(rf"(?:https|agtp)://{_HOST}", text) is None:
        raise ValueError('must be an origin, such as "https://api.example.com"')
    found = origin_of(text)
    if not found:
        raise ValueError('must be an origin, such as "https://api.example.com"')
    return found


def _field(name: str) -> str:
    if re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", name, re.ASCII) is None or name.lower() in _OWN_FIELDS:
        raise ValueError(f"holds {name[:64]!r}, which is not a field that can be set here")
    return name


def _path(value: str) -> str:
    return value.rstrip("/")


class Provider(Section):
    """
    An entry of ``[[registry.provider]]``: an origin that agents are at, and how this host calls it.

    A card alone makes the host call nothing: its ``endpoint`` is called only where its origin is listed here.
    """

    origin: Annotated[str, BeforeValidator(_origin)] = ""
    """Scheme, host and port of the endpoints, such as ``https://api.example.com``. Required."""

    headers: Table[Annotated[str, AfterValidator(_field)], HeaderValue] = Field(default_factory=dict)
    """Fields that this host sends there and nowhere else, such as its own ``Authorization``; no caller's are sent."""

    ca: FilePath | None = None
    """PEM file of the only authorities to trust; None: this machine's."""

    allow_addresses: Items[Network] = ()
    """Networks that may be connected to although they are not public."""

    scopes: Items[Scope] = ()
    """What callers must hold to be shown its cards, and to call them."""

    probe_seconds: Annotated[float, Field(ge=10, le=86_400)] | None = None
    """How often the host looks whether each endpoint answers (HEAD); None: it never does."""

    timeout: Seconds = 30.0
    """Seconds that one call may take."""

    card_keys: Table[str, Line] = Field(default_factory=dict)
    """Who may have signed its cards, by ``kid``: base64url of an Ed25519 key, or ``file:PATH`` of a PEM or JWK file."""


class RegistrySection(HttpSection):
    """
    The section ``[registry]``: cards of everything hosted, and of agents elsewhere that registered (HAIDIP).

    The section alone has the registry answer over AGTP, at ``/cards``; with ``listen`` it answers over HTTP too.
    """

    path: Annotated[str, Text, form(r"(?:/[A-Za-z0-9._~-]{1,64}){0,8}/?", "must be a path"), AfterValidator(_path)] = ""
    """Before ``/agents`` of HTTP, such as ``/registry``."""

    url: Annotated[str | None, form(r"https?://[\x21-\x7e]{1,256}", "must be a URL")] = None
    """How clients reach the path above over HTTP: then the cards of what is hosted here name it."""

    @property
    def base(self) -> str | None:
        """The address at which clients find the registry, with its path, as far as the configuration has it."""
        told = find_base_url(self.listen, self.url)
        return None if told is None or self.listen is None else f"{told.rstrip('/')}{self.path}"

    client_certificates: bool = True
    """
    Ask clients for a certificate of ``[tls] client_ca``; one with an AGTP identity makes its agent the caller, with
    assurance ``certificate``. Only with ``ssl``.
    """

    agent: Line = ""
    """
    The name or the Agent-ID of the agent in whose name those call who have a token of a provider of
    ``[policies.oauth]``: such a token says on whose behalf. Empty: those tokens are not accepted here.
    """

    refetch_seconds: Annotated[float, Field(ge=60, le=604_800)] = 3_600.0
    """How often a card that was registered by its URL is fetched again."""

    forget_days: Annotated[float, Field(gt=0, le=3_650)] = 30.0
    """Days after which a card is forgotten whose agent was not seen any more."""

    log_queries: bool = False
    """Whether records hold the text of searches; else its digest and length."""

    provider: Items[Provider] = ()


def registry_faults(given: RegistrySection | None) -> Iterator[ConfigFault]:
    """Yield the faults of ``[registry]`` that span several keys."""
    if given is None:
        return
    origins = [provider.origin for provider in given.provider]
    for number, provider in enumerate(given.provider):
        location: Location = ("registry", "provider", number)
        if not provider.origin:
            yield ConfigFault(
                location=(*location, "origin"), message="is missing", hint="such as https://api.example.com"
            )
        elif origins.index(provider.origin) < number:
            yield ConfigFault(
                location=(*location, "origin"),
                message="is repeated, so its rules are ambiguous",
                beside=("registry", "provider", origins.index(provider.origin), "origin"),
            )
        if provider.origin.startswith("agtp:") and (provider.headers or provider.probe_seconds):
            yield ConfigFault(
                location=(*location, "headers" if provider.headers else "probe_seconds"),
                message="can only be used with https",
                hint="for agents at other hosts, use [delegation]",
            )
