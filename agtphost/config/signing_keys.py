"""``[[methods.signing_key]]``: keys of a principal or an organization that SIGN signs with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from agtphost.config.faults import ConfigFault
from agtphost.config.values import CanonicalAgentID, FilePath, Items, Line, Scope, Section, form

KeyName = Annotated[
    str,
    form(
        r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}",
        "holds {}, which is not a name such as organization-governance (1 to 128 letters, digits and . _ : @ -)",
    ),
]


class SigningKeySection(Section):
    """An entry of ``[[methods.signing_key]]``: a key of a principal or an organization, and who may sign with it."""

    name: KeyName
    """What callers of SIGN send as ``key_id``. The key's own identifier (``kid``) is taken too."""

    key: FilePath
    """
    The private key: Ed25519, PKCS#8, PEM, for the operator of the host alone (mode 600). ``agtp key new`` makes one.
    It is read at the start and on a reload.
    """

    signer: Line = ""
    """In whose name it signs, as the signed document states it: ``"Example Ltd"``. Empty: ``name``."""

    scopes: Items[Scope] = ()
    """Scopes that signing with it takes, all of them."""

    agents: Items[CanonicalAgentID] = ()
    """Agent-IDs that may sign with it; empty: every agent that has ``scopes``. One of the two must be there."""


def signing_key_faults(keys: Sequence[SigningKeySection]) -> Iterator[ConfigFault]:
    """Find keys that everybody could sign with, and names of two keys."""
    seen: set[str] = set()
    for number, each in enumerate(keys):
        at = ("methods", "signing_key", number)
        if not each.scopes and not each.agents:
            yield ConfigFault(
                location=(*at, "name"),
                message=f'is "{each.name}", and nothing says who may sign with it',
                hint='add scopes = ["governance:sign"], or agents = [...] with Agent-IDs',
            )
        if each.name in seen:
            yield ConfigFault(location=(*at, "name"), message="is the name of two keys", hint="choose another name")
        seen.add(each.name)
