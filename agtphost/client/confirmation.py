"""
Ask before calls that cannot be undone (AGIS v01 sections 6 and 14).

A program that makes calls for a person gives the client a function that asks the person. Before a call that changes
something, the client then reads the server's definition of the endpoint, and asks if the call cannot be undone, however
sure the caller is; and if the caller states a confidence that is too low. What a server says cannot lower the bar: for
what this client counts as grave its own minimum holds too, and what a server says nothing usable of is as grave as its
method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agtphost.client.service_documents import Definition
from agtphost.client.terminal import escape
from agtphost.vocabulary.catalog import Catalog

LEAST = 0.85
"""The least confidence for grave calls, even if a server asks for less."""

GRAVE = frozenset(
    {"EXECUTE", "CANCEL", "TRANSFER", "PURCHASE", "REMOVE", "REVOKE", "DELETE", "PAY", "DEACTIVATE", "TERMINATE"}
)
"""Methods that this client counts as grave: the draft's three, and what moves money, removes or ends."""

IRREVERSIBLE = "irreversible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """The reason why a call needs a person's consent, and what is known of the call."""

    method: str
    path: str
    why: str
    """One sentence."""

    irreversible: bool
    """Whether the server says that it cannot be undone."""

    definition: Definition | None
    """What the server says of the endpoint; None where it says nothing that may be used."""

    needed: float
    """How sure a caller should be."""

    confidence: float | None
    """How sure this one says that it is."""

    def __str__(self) -> str:
        said = [f"{self.method} {self.path}: {self.why}"]
        if self.definition is not None:
            said.extend(
                f"  {name}: {escape(text)}"
                for name, text in (("intent", self.definition.intent), ("outcome", self.definition.outcome))
                if text
            )
        return "\n".join(said)


Confirm = Callable[[Consequence], bool | Awaitable[bool]]
"""
Whether the call is to be made. The blocking client waits in it for a person; for the others it gives an awaitable, so
that their loop goes on.
"""


def may_matter(method: str) -> bool:
    """Return whether a call by this method could change anything; calls that only read need no consent."""
    entry = Catalog.load().entry(method)
    return entry is None or not entry.reads


def consequence(
    method: str,
    path: str,
    definitions: Sequence[Definition] | None,
    confidence: float | None,
    unusable: str = "",
) -> Consequence | None:
    """
    Return what a caller has to be asked about a call; None where it may be made.

    :param path: as it will be sent.
    :param definitions: what the server says; None where it says nothing that may be used.
    :param confidence: from 0 to 1: how sure the caller is that this is what was wanted; None: it does not say.
    :param unusable: why nothing of what the server says is used.
    """
    found = _find_definition(method, path, definitions or ())
    grave = method in GRAVE or (found is not None and found.impact == IRREVERSIBLE)
    guidance = 0.0 if found is None or found.guidance is None else float(found.guidance)
    needed = max(guidance, LEAST) if grave else guidance
    irreversible = found is not None and found.impact == IRREVERSIBLE
    if irreversible:
        why = "it cannot be undone, says the server."
    elif found is None and grave:
        why = unusable or "the server does not say what it does, and such a call may not be undone."
    elif confidence is not None and confidence < needed:
        why = f"it needs a confidence of {needed:g}, and the caller's is {confidence:g}."
    else:
        return None
    return Consequence(
        method=method,
        path=path,
        why=why,
        irreversible=irreversible,
        definition=found,
        needed=needed,
        confidence=confidence,
    )


def _find_definition(method: str, path: str, definitions: Sequence[Definition]) -> Definition | None:
    """Return the definition of a call; the one with the fewest parameters, where several have such a path."""
    paths = [path]
    if path.startswith("/agents/"):
        paths.append("/" + path.removeprefix("/agents/").partition("/")[2])
    for each in paths:
        fitting = [definition for definition in definitions if definition.matches(method, each)]
        if fitting:
            return min(fitting, key=lambda definition: definition.path.count("{"))
    return None
