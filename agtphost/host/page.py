"""``[admin]`` becomes the operators' page."""

from __future__ import annotations

from functools import partial

from agtphost.config.surfaces import ADMIN
from agtphost.contract.binding import Binding
from agtphost.contract.reserved import PAGE
from agtphost.host.foundation import Foundation
from agtphost.host.surfaces import Served
from agtphost.iagtp import IDispatcher
from agtphost.identity.key_history import statements_of
from agtphost.identity.peer import Assurance
from agtphost.methods.page import PageAccess
from agtphost.page.entrance import LIFE, Entrance
from agtphost.page.evidence import Keys
from agtphost.page.fields import ALWAYS
from agtphost.page.resource import PageResource

STATEMENTS = {
    ("AUTHORIZE", "/page"): "A link to the operators' page, good once and for a minute.",
    ("QUERY", "/page"): "What the caller may see and do on the operators' page.",
    ("QUERY", "/page/feed"): "Note that a live feed of the operators' page begins, or is over.",
}


def entrance(on: Foundation) -> Entrance | None:
    """Links and sessions; None where there is no page."""
    given = on.config.admin
    return None if given.listen is None else Entrance(given.base, given.idle, on.reactor.seconds)


def page_bindings(on: Foundation, entrance: Entrance | None) -> tuple[Binding, ...]:
    """What AGTP answers about the page; nothing where there is none."""
    if entrance is None:
        return ()
    given = on.config.admin
    handler = PageAccess(
        on.authorization,
        on.loaded.directory.known,
        entrance.link,
        LIFE,
        viewers=given.viewers,
        writes=given.writes,
        now=on.seconds,
    )
    return tuple(
        Binding(
            method=method,
            path=path,
            handler=handler,
            tier="A",
            description=STATEMENTS[method, path],
            # People are known by their certificate's key, and are no agents.
            min_assurance=Assurance.NONE,
            idempotent=method == "QUERY",
            state_changing=method != "QUERY",
            server_level=True,
        )
        for method, path in PAGE
    )


def page(on: Foundation, entrance: Entrance | None, dispatcher: IDispatcher) -> Served | None:
    """The surface of ``[admin]``; None where it is not served."""
    if entrance is None:
        return None
    key = on.loaded.key
    keys = Keys(
        own=lambda: () if key is None else (key.public,),
        links=partial(statements_of, key),
        witnesses=on.evidence.witnesses.known,
    )
    resource = PageResource(entrance, dispatcher, keys)
    return Served(name=ADMIN, what="the operators' page", resource=resource, pages=True, fields=ALWAYS)
