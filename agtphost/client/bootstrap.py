"""
What a domain says of its AGTP presence over HTTPS: core v08 section 6.1, ``/.well-known/agtp``.

Before a URI that names a domain is resolved for the first time, the domain is
asked where its AGTP endpoint is. The answer is advice: a domain that does not
answer, or answers with anything but a bootstrap document, is dialled as its
URI says. Only HTTP 404 has another meaning: the domain operates no agent
namespace, and is not asked again for a while (spec reading 62).

No I/O: both clients share this; :mod:`.bootstrap_fetch` and
:mod:`.blocking_https` bring the octets.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Any

from agtphost.client.errors import ClientError
from agtphost.client.manifests import cache_seconds
from agtphost.vocabulary import jsontext, uris
from agtphost.vocabulary.addresses import AddressPolicy
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.uris import DEFAULT_PORT, AgtpUri, Form, UriError

PATH = "/.well-known/agtp"

ABSENT_SECONDS = 86_400.0
"""How long a 404 is remembered where it does not say (core v08 section 6.1)."""

PRESENT_SECONDS = 3_600.0
"""The same for a document."""

LONGEST_SECONDS = 604_800.0
"""No answer is remembered longer, even if it asks for that."""

FAILED_SECONDS = 300.0
"""How long a domain that could not be asked is left alone."""

MAX_OCTETS = 65_536
"""Of a document; the draft's own example has five hundred."""

MAX_DOMAINS = 1024
"""Domains that are remembered; beyond that the oldest is asked again."""

DOMAINS = AddressPolicy([ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")])
"""Public addresses and those of private networks: of no machine's own services, and of no cloud's."""

_FORMS = frozenset({Form.DOMAIN, Form.NAMED_AGENT, Form.NAMED_AGENT_AT_SUBDOMAIN, Form.NAMESPACE})
_IN_NAMESPACE = _FORMS - {Form.DOMAIN}


class NoNamespace(ClientError):
    """The domain declares that it operates no agent namespace: its bootstrap document is 404."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapPolicy:
    """Whether and how domains are asked."""

    port: int = 443
    timeout: float = 5.0
    """Seconds for the whole question, connecting included: it is only advice."""

    single_labels: bool = False
    """Whether names without a dot, such as ``localhost``, are asked too."""

    addresses: AddressPolicy | None = DOMAINS
    """Which addresses a domain may have to be asked: a URI may come from anybody. None, or ``single_labels``: any."""

    def __post_init__(self) -> None:
        if self.single_labels and self.addresses is DOMAINS:
            object.__setattr__(self, "addresses", None)


ASK_DOMAINS = BootstrapPolicy()
"""The default of clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPAnswer:
    """The answer of a domain's HTTPS server."""

    status: int
    cache_control: str | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """The remembered answer of one domain."""

    expires: float
    """On the client's clock."""

    endpoint: AgtpUri | None = None
    """Where its AGTP traffic goes; None: where its URIs say."""

    absent: bool = False
    """Whether it declares that it has no namespace."""

    failure: str = ""
    """Why it is not known what it says; empty where it is."""


class Bootstraps:
    """
    The domains that one client asked.

    :param policy: None: no domain is asked.
    """

    def __init__(self, policy: BootstrapPolicy | None) -> None:
        self.policy = policy
        self._known: OrderedDict[str, Bootstrap] = OrderedDict()

    def domain_to_ask(self, uri: AgtpUri, now: float) -> str | None:
        """Return the domain that has to be asked before ``uri`` is resolved; None if none has to be."""
        if self.policy is None or uri.form not in _FORMS or uri.port != DEFAULT_PORT:
            return None
        if "." not in uri.host and not self.policy.single_labels:
            return None
        known = self._known.get(uri.host)
        return uri.host if known is None or now >= known.expires else None

    def note(self, domain: str, answer: HTTPAnswer | str, now: float) -> Bootstrap:
        """
        Remember what a domain answered.

        :param answer: or why there is none.
        """
        found = _failure(answer, now) if isinstance(answer, str) else _read(answer, now)
        return keep(self._known, domain, found, MAX_DOMAINS)

    def locate(self, uri: AgtpUri) -> AgtpUri:
        """
        Return the URI with the host and port that its domain gave.

        :raises NoNamespace: where the domain declared that it has none, and ``uri`` is in it.
        """
        known = self._known.get(uri.host)
        if known is None or uri.form not in _FORMS or uri.port != DEFAULT_PORT:
            return uri
        if known.absent and uri.form in _IN_NAMESPACE:
            raise NoNamespace(
                f"The domain {uri.host} declares that it has no agent namespace: https://{uri.host}{PATH} is 404.",
                "Check the domain, or make the client with bootstrap=None to dial it all the same.",
            )
        if known.endpoint is None:
            return uri
        return replace(uri, host=known.endpoint.host, port=known.endpoint.port)


def _failure(why: str, now: float) -> Bootstrap:
    return Bootstrap(expires=now + FAILED_SECONDS, failure=why)


def _read(answer: HTTPAnswer, now: float) -> Bootstrap:
    if answer.status == 404:
        return Bootstrap(expires=now + _seconds_kept(answer, ABSENT_SECONDS), absent=True)
    if answer.status != 200:
        return _failure(f"the status is {answer.status}", now)
    try:
        document = jsontext.decode(answer.body)
        endpoint = _endpoint(document)
    except (jsontext.JSONTextError, UriError, ValueError) as error:
        return _failure(f"it is not a bootstrap document: {explain(error)}", now)
    return Bootstrap(expires=now + _seconds_kept(answer, PRESENT_SECONDS), endpoint=endpoint)


def _seconds_kept(answer: HTTPAnswer, otherwise: float) -> float:
    return min(cache_seconds(answer.cache_control, otherwise), LONGEST_SECONDS)


def _endpoint(document: Any) -> AgtpUri:
    given = document.get("endpoint") if isinstance(document, dict) else None
    if not isinstance(given, str):
        raise ValueError("it has no endpoint")
    endpoint = uris.parse(given)
    if not endpoint.host:
        raise ValueError("its endpoint names no host")
    return endpoint
