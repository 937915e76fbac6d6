"""``[gateway]``: where any HTTP client calls what AGTP's own clients call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from agtphost.config.faults import ConfigFault
from agtphost.config.http import HttpSection, find_base_url
from agtphost.config.upstreams import web_url
from agtphost.config.values import Items, Line, Text
from agtphost.vocabulary.tomltext import Location

LISTEN = "tcp:8080:interface=127.0.0.1"
"""Where it is served unless the section says otherwise: never on AGTP's own port."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_AUTHORITY = ("agent-id", "owner-id", "authority-scope", "delegation-chain", "intent-assertion", "cart-digest")
_MEANING = (
    *("allow-rcns", "contract-synthesized", "synthesis-id", "content-type", "content-encoding", "accept-encoding"),
    *("idempotency-key", "request-id", "task-id", "session-id", "budget-limit", "agtp-catalog-version"),
    *("if-none-match", "traceparent", "tracestate"),
)
_HTTP = (
    *("connection", "content-length", "cookie", "expect", "forwarded", "host", "http2-settings", "keep-alive"),
    *("origin", "proxy-authorization", "proxy-connection", "referer", "te", "trailer", "transfer-encoding", "upgrade"),
)


def _field_name(name: str) -> str:
    text = name.strip().lower()
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"holds {name[:64]!r}, which is not the name of a header field")
    if text == "authorization":
        raise ValueError(
            "has authorization, which is never needed: tokens of [policies.oauth] are passed on anyway, "
            "and those of [[http.client]] never"
        )
    if text in _AUTHORITY or text.startswith(("x-", "sec-")):
        raise ValueError(
            f"holds {text}, which would let a client choose its identity; only its token or certificate may"
        )
    if text in _MEANING or text in _HTTP:
        raise ValueError(f"holds {text}, which the gateway or HTTP itself uses")
    return text


def _url(text: str) -> str:
    return web_url(text).rstrip("/")


class GatewaySection(HttpSection):
    """
    The section ``[gateway]``: any HTTP client calls every endpoint and every tool (``docs/gateway``).

    Who calls is proven by a token of ``[[http.client]]``, by a client certificate, or by a token of a provider of
    ``[policies.oauth]``, which says on whose behalf ``agent`` calls.
    """

    listen: Line | None = LISTEN
    """A Twisted endpoint string, as for every HTTP listener."""

    url: Annotated[str, BeforeValidator(_url)] | None = None
    """How clients reach it, such as ``https://api.example.com``: what the manifest's ``apis`` says of it."""

    agent: Line = ""
    """
    The name or the Agent-ID of the agent in whose name those call who show no credential, with assurance ``header``,
    and those with a provider's token, with assurance ``gateway``. Empty: they are answered 401.
    """

    client_certificates: bool = True
    """
    With ``ssl``: ask clients for a certificate of ``[tls] client_ca``, unless ``[tls] client_auth`` is ``none``; one
    with an AGTP identity makes its agent the caller, with assurance ``certificate``.
    """

    forward: Items[Annotated[str, Text, AfterValidator(_field_name)]] = ()
    """
    Further header fields that endpoints see, in ``context.forwarded``; such as ``["accept-language"]``. None of those
    that say who calls, nor any ``x-``.
    """

    stream: bool = True
    """Whether ``Accept: text/event-stream`` is answered event by event."""

    openapi: bool = True
    """Whether ``/.well-known/openapi.json`` tells callers what they can call."""

    @property
    def base(self) -> str | None:
        """The address at which clients find the gateway, as far as the configuration has it."""
        return find_base_url(self.listen, self.url)


def absent_gateway() -> GatewaySection:
    """Return the section of a configuration without ``[gateway]``."""
    return GatewaySection(listen=None)


def gateway_faults(given: GatewaySection) -> Iterator[ConfigFault]:
    """Check rules that span several keys of ``[gateway]``, besides those of all HTTP listeners."""
    where: Location = ("gateway",)
    if (given.certificate is None) != (given.key is None):
        yield ConfigFault(
            location=where, message="needs both certificate and key, or neither", hint="leave certificate and key out"
        )
    if given.listen is None and given.model_fields_set - {"listen"}:
        yield ConfigFault(location=(*where, "listen"), message="is missing", hint=f'such as listen = "{LISTEN}"')
    seen: set[str] = set()
    for index, name in enumerate(given.forward):
        if name in seen:
            yield ConfigFault(location=(*where, "forward", index), message="is listed twice")
        seen.add(name)
