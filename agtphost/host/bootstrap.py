"""The bootstrap document of this host over HTTPS, where ``[wellknown]`` has a listener."""

from __future__ import annotations

from agtphost.config import Config
from agtphost.config.presence import bootstrap_facts
from agtphost.config.surfaces import WELLKNOWN
from agtphost.host.surfaces import Served
from agtphost.http.pages import Page, Pages
from agtphost.http.wellknown import PATH, Namespace, encoded


def bootstrap(config: Config) -> Served | None:
    """The surface of ``[wellknown]``; None where it is not served."""
    if config.wellknown.listen is None:
        return None
    page = Page(body=encoded(Namespace(**bootstrap_facts(config))), max_age=config.wellknown.max_age)
    return Served(name=WELLKNOWN, what="the well-known document", resource=Pages({PATH: page}))
