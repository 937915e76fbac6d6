"""
How surely a caller must be known: the one statement of design decision 4.

An Agent-ID in a header field is an assertion that everybody can make. It says which agent a request is about, and gives
no access to anything. Three rules follow, and everything that decides about assurance asks here:

- A binding for which the operator wrote no ``min_assurance`` takes at least :data:`BELIEVED` to call, even if it only
  reads: reading gives away data. What changes state takes a certificate. The profile ``development`` on a loopback
  address relaxes both to ``header`` (:func:`default_assurance`), and what is behind an MCP server to ``gateway``
  (:func:`upstream_assurance`).
- Where a binding is open to callers without a name, a caller known by a header alone is such a caller: its handler sees
  no caller (:func:`is_unseen`), and it has no scopes there. Lists show it besides what the operator opened to callers
  known by a header.
- What is stored of an agent is shown to that agent where it is :func:`believed <is_believed>`, in every profile. Signed
  records take what INSPECT takes (:mod:`agtphost.methods.inspection.access`).
"""

from __future__ import annotations

from typing import Final

from agtphost.identity.peer import Assurance

BELIEVED: Final = Assurance.GATEWAY
"""The least assurance at which a caller has proven to be the agent that a request names."""


def is_believed(assurance: Assurance) -> bool:
    """Return whether the caller has proven to be the agent that the request names."""
    return assurance >= BELIEVED


def default_assurance(floor: Assurance, *, changes: bool) -> Assurance:
    """
    Return the least assurance of a binding for which the operator wrote none.

    :param floor: what changes state takes on this host: ``certificate``, or ``header`` in development on loopback.
    :param changes: whether the binding changes state.
    """
    return floor if changes else min(floor, BELIEVED)


def upstream_assurance(floor: Assurance, *, changes: bool) -> Assurance:
    """
    Return the least assurance of something behind an MCP server for which the operator wrote none.

    The code there is not this host's, so an unproven header gives no access to it, in any profile.

    :param floor: as of :func:`default_assurance`.
    :param changes: whether it counts as changing state; only the operator can say that a tool does not.
    """
    return max(BELIEVED, default_assurance(floor, changes=changes))


OPEN_TO_TOKENS: Final = 'min_assurance = "gateway"'
"""The line of an entry of ``host.toml`` that opens it to callers whom a token proves."""


_PROOFS: Final = {
    Assurance.NONE: "nothing",
    Assurance.HEADER: "its Agent-ID header",
    Assurance.GATEWAY: "a token",
    Assurance.CERTIFICATE: "a client certificate",
}
"""What shows who a caller is, in words for the caller."""


def explanation_of(assurance: Assurance, least: Assurance) -> str:
    """
    Return why a caller is not known surely enough, and what would do.

    :param assurance: how surely it is known.
    :param least: what is asked of it.
    """
    proofs = " or ".join(_PROOFS[each] for each in sorted(Assurance, reverse=True) if each >= least)
    return f"The calling agent is known by {_PROOFS[assurance]} only; this call needs {proofs}."


def remedy_of(assurance: Assurance, least: Assurance) -> str:
    """
    Return what helps a caller that is not known surely enough.

    :param assurance: how surely it is known.
    :param least: what is asked of it.
    """
    if assurance is BELIEVED and least > BELIEVED:
        return f"Connect with the agent's client certificate; or the operator opens this to tokens: {OPEN_TO_TOKENS}."
    return "Connect with the agent's client certificate."


def is_unseen(assurance: Assurance, least: Assurance, floor: Assurance, *, changes: bool) -> bool:
    """
    Return whether a handler is not to see the agent that its caller names.

    :param assurance: how surely the caller is known.
    :param least: what the binding asks for.
    :param floor: as of :func:`default_assurance`. What changes state believes a header where this is ``header``.
    :param changes: whether the binding changes state.
    """
    if assurance is not Assurance.HEADER or least is not Assurance.NONE:
        return False
    return not changes or floor > Assurance.HEADER
