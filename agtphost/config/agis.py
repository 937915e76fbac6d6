"""``[agis]``: what AGIS documents of this host say of it (AGIS v01 sections 8 and 12.2)."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from agtphost.config.values import Items, Line, Section, form
from agtphost.vocabulary import uris

LONGEST = 500
"""Characters of a line of a document."""


def _short(value: str) -> str:
    if len(value) > LONGEST:
        raise ValueError(f"must be at most {LONGEST} characters")
    return value


def _address(value: str) -> str:
    try:
        uris.parse(value)
    except uris.UriError as error:
        raise ValueError(f"must be an address such as agtp://payments.example.com: {error}") from None
    return value


Short = Annotated[Line, AfterValidator(_short)]
Namespace = Annotated[
    str,
    form(
        "[A-Za-z0-9][A-Za-z0-9._-]{0,127}",
        "must be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit",
    ),
]


class AgisSection(Section):
    """
    The section ``[agis]``: what AGIS documents, and ``/.well-known/agis.json``, say of this host
    (``docs/agis-publication``). They are answered even without this section. A change of it is taken on a reload.
    """

    service: Short = ""
    """What the service is called by people; empty: ``server_id``."""

    description: Short = ""
    """What it is there for, in a sentence."""

    domain: Short = ""
    """The trade it is in, such as ``hospitality`` or ``logistics``."""

    namespace: Namespace | None = None
    """What tells its verbs from those of other services, such as ``acme-reservations``; None: ``server_id``."""

    related: Items[Annotated[str, AfterValidator(_address)]] = ()
    """Addresses of services that belong to this one, such as ``agtp://payments.example.com``."""

    publish: bool = False
    """
    Whether every endpoint has to conform to AGIS: one that does not keeps the host from starting. Else it is left out
    of the documents, and the log says which rule it breaks.
    """
