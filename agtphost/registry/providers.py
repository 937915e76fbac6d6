"""Origins that the operator lets this host call for the sake of cards, each with how it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from twisted.internet.interfaces import IHostnameResolver

from agtphost.config.registry import Provider as ProviderSection
from agtphost.upstream.https import HTTPSClient, trust_of
from agtphost.vocabulary import origins
from agtphost.vocabulary.addresses import AddressPolicy, IPNetwork


class Provider:
    """
    One of them.

    :raises OSError, ValueError: its authorities cannot be read.
    """

    def __init__(self, reactor: Any, settings: ProviderSection, resolver: IHostnameResolver | None = None) -> None:
        self.settings = settings
        addresses = AddressPolicy(settings.allow_addresses)
        self.client = HTTPSClient(reactor, trust_of(settings.ca), addresses=addresses, resolver=resolver)

    @property
    def fields(self) -> Mapping[str, str]:
        """Header fields that go there, secrets among them."""
        return {name: value.reveal() for name, value in self.settings.headers.items()}


class Providers:
    """
    All of them, by origin.

    :param foreign: what reaches origins that are not listed: public addresses alone. Only URLs that a person or an
        agent names are fetched so, and nothing that a card says.
    """

    def __init__(
        self, reactor: Any, sections: Sequence[ProviderSection] = (), resolver: IHostnameResolver | None = None
    ) -> None:
        self._reactor = reactor
        self._resolver = resolver
        self._foreign: HTTPSClient | None = None
        self._by_origin = {each.origin: Provider(reactor, each, resolver) for each in sections}

    @property
    def foreign(self) -> HTTPSClient:
        """For what no provider is named for."""
        if self._foreign is None:
            self._foreign = HTTPSClient(
                self._reactor, trust_of(None), addresses=AddressPolicy(), resolver=self._resolver
            )
        return self._foreign

    def of(self, url: str) -> Provider | None:
        """The provider of a URL; None where the operator has none."""
        return self._by_origin.get(origin_of(url))

    def scopes(self, *urls: str) -> tuple[str, ...]:
        """
        Return the scopes that callers of one place must hold.

        :param urls: every URL by which the place is known here; the scopes of all their providers are needed.
        """
        found = (self.of(url) for url in urls)
        return tuple(dict.fromkeys(scope for each in found if each is not None for scope in each.settings.scopes))

    @property
    def probing(self) -> bool:
        """Whether any endpoint is looked at."""
        return any(each.settings.probe_seconds is not None for each in self._by_origin.values())

    def allowed(self) -> tuple[IPNetwork, ...]:
        """Networks that agents may be in although they are not public."""
        return tuple(each for one in self._by_origin.values() for each in one.settings.allow_addresses)


@lru_cache(1024)
def origin_of(url: str) -> str:
    """Return :func:`agtphost.vocabulary.origins.origin_of`, remembered: lists ask it of every card."""
    return origins.origin_of(url)
