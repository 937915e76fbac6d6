"""Origins that the operator lets this host call for cards, each with the way to call it."""

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
    An origin that this host may call.

    :raises OSError, ValueError: its certificate authorities cannot be read.
    """

    def __init__(self, reactor: Any, settings: ProviderSection, resolver: IHostnameResolver | None = None) -> None:
        self.settings = settings
        addresses = AddressPolicy(settings.allow_addresses)
        self.client = HTTPSClient(reactor, trust_of(settings.ca), addresses=addresses, resolver=resolver)

    @property
    def fields(self) -> Mapping[str, str]:
        """Return the header fields that are sent there; some are secrets."""
        return {name: value.reveal() for name, value in self.settings.headers.items()}


class Providers:
    """
    All providers, by origin.

    Its client :attr:`unlisted_client` reaches origins that are not listed, at public addresses only. Only URLs that a
    person or an agent names are fetched by it, never one that a card names.
    """

    def __init__(
        self, reactor: Any, sections: Sequence[ProviderSection] = (), resolver: IHostnameResolver | None = None
    ) -> None:
        self._reactor = reactor
        self._resolver = resolver
        self._foreign: HTTPSClient | None = None
        self._by_origin = {each.origin: Provider(reactor, each, resolver) for each in sections}

    @property
    def unlisted_client(self) -> HTTPSClient:
        """Return the client of origins that no provider is configured for."""
        if self._foreign is None:
            self._foreign = HTTPSClient(
                self._reactor, trust_of(None), addresses=AddressPolicy(), resolver=self._resolver
            )
        return self._foreign

    def find(self, url: str) -> Provider | None:
        """Return the provider of a URL; None if the operator has configured none."""
        return self._by_origin.get(origin_of(url))

    def scopes(self, *urls: str) -> tuple[str, ...]:
        """
        Return the scopes that callers of one place must hold.

        :param urls: every URL by which the place is known here; the scopes of all their providers are needed.
        """
        found = (self.find(url) for url in urls)
        return tuple(dict.fromkeys(scope for each in found if each is not None for scope in each.settings.scopes))

    @property
    def probing(self) -> bool:
        """Return whether at least one provider has its endpoints probed."""
        return any(each.settings.probe_seconds is not None for each in self._by_origin.values())

    def allowed_networks(self) -> tuple[IPNetwork, ...]:
        """Return the non-public networks that agents may be in."""
        return tuple(each for one in self._by_origin.values() for each in one.settings.allow_addresses)


@lru_cache(1024)
def origin_of(url: str) -> str:
    """Return :func:`agtphost.vocabulary.origins.origin_of` from a cache: lists ask for it once a card."""
    return origins.origin_of(url)
