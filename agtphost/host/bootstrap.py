"""Serve the well-known documents of this host over HTTPS, where ``[wellknown]`` has a listener."""

from __future__ import annotations

from collections.abc import Callable

from agtphost.config import Config
from agtphost.config.presence import bootstrap_facts
from agtphost.config.surfaces import AGIS, WELLKNOWN
from agtphost.http.bootstrap_document import PATH, DomainFacts, encode_document
from agtphost.http.served_surface import ServedSurface
from agtphost.http.static_pages import PageTable, StaticPage


def bootstrap(config: Config, summary: Callable[[], bytes | None]) -> ServedSurface | None:
    """
    Return the surface of ``[wellknown]``, or None where it is not served.

    :param summary: returns the content of ``agis.json``.
    """
    if config.wellknown.listen is None:
        return None
    page = StaticPage(body=encode_document(DomainFacts(**bootstrap_facts(config))), max_age=config.wellknown.max_age)

    def agis() -> StaticPage | None:
        octets = summary()
        return None if octets is None else StaticPage(body=octets, max_age=config.wellknown.max_age)

    resource = PageTable({PATH: page, AGIS.path: agis})
    return ServedSurface(name=WELLKNOWN, what="the well-known document", resource=resource)
