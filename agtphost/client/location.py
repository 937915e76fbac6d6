"""
What a URI addresses: core v08 sections 6.1 and 6.2.

Without I/O: the caller passes a function that makes the requests.

Where an Agent-ID can be reached is a hint and proves nothing: a host that
answers with another agent's document is passed over. A redirect is followed
once, and only within the authority that was asked.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from agtphost.client.errors import (
    CannotConnect,
    ClientError,
    ConnectionLost,
    InvalidCall,
    Timeout,
    TLSRefused,
    VerificationFailed,
)
from agtphost.client.reply import Reply
from agtphost.client.requests import parse_uri
from agtphost.client.terminal import escape
from agtphost.vocabulary import uris
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.uris import AgtpUri, Form, UriError

UNREACHABLE = (CannotConnect, TLSRefused, Timeout, ConnectionLost)
"""Errors after which another host may be asked."""

_ASK_OPERATOR = "Ask its operator for the agent's address."
_AGENT_PATH = re.compile(r"/agents/([A-Za-z0-9_-]{1,64})(/status)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request whose answer a procedure needs."""

    uri: AgtpUri
    method: str = "DESCRIBE"
    anonymous: bool = False
    part: str = ""
    """The token of a part of a manifest behind the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The place to which a URI led, and the answer there."""

    uri: AgtpUri
    """The URI that was answered: of the host that knew the agent, after a redirect."""

    reply: Reply
    redirected: bool = False


Answer = Callable[[Ask], Awaitable[Reply]]
"""Makes a request, and returns its reply, with any status. :raises ClientError: if it gets none."""


def question(uri: str | AgtpUri, format: str | None) -> Ask:
    """
    Return the request by which a URI is resolved: design decision 5.

    :param format: a ``?format=`` value; None leaves it to the URI.
    """
    target = parse_uri(uri)
    if format is not None:
        kept = [part for part in (target.query or "").split("&") if part and not part.startswith("format=")]
        target = replace(target, query="&".join([*kept, f"format={format}"]))
    if target.form in (Form.SERVER, Form.DOMAIN):
        return Ask(uri=target, method="DISCOVER", anonymous=True)
    return Ask(uri=target)


def format_of(uri: AgtpUri) -> str | None:
    """Return the ``format`` that a URI asks for; None where it leaves it to the host."""
    for part in (uri.query or "").split("&"):
        if part.startswith("format="):
            return part.removeprefix("format=")
    return None


async def locating(answer: Answer, ask: Ask, hosts: Sequence[AgtpUri]) -> Located:
    """
    Find what a URI addresses.

    :param answer: makes the requests.
    :param hosts: where Agent-IDs without a host are asked for, in this order.
    :raises InvalidCall: an Agent-ID alone, and no host is known.
    :raises VerificationFailed: every host that answered did so with another agent's document, or a
        redirect leads where it must not.
    """
    if ask.uri.form is Form.AGENT:
        return await _ask_in_turn(answer, ask, hosts)
    return await _at(answer, ask)


async def _ask_in_turn(answer: Answer, ask: Ask, hosts: Sequence[AgtpUri]) -> Located:
    """Ask hosts in turn for form 1, and return the first that knows the agent."""
    if not hosts:
        raise InvalidCall(
            "An Agent-ID alone does not say where its agent can be reached.",
            f"Write agtp://{ask.uri.agent_id}@HOST, or name a resolver.",
        )
    failure: ClientError | None = None
    unknown: Located | None = None
    for host in hosts:
        hinted = replace(ask.uri, form=Form.AGENT_AT_HOST, host=host.host, port=host.port)
        try:
            found = await _at(answer, replace(ask, uri=hinted))
        except (*UNREACHABLE, VerificationFailed) as error:
            failure = error if failure is None or isinstance(error, VerificationFailed) else failure
            continue
        if found.reply.status != Status.NOT_FOUND:
            return found
        unknown = unknown or found
    # A host that lied is worth more attention than one that did not know.
    if failure is not None and (unknown is None or isinstance(failure, VerificationFailed)):
        raise failure
    assert unknown is not None
    return unknown


async def _at(answer: Answer, ask: Ask) -> Located:
    """Ask at the place that the URI names, and once more where that redirects to."""
    reply = await answer(ask)
    redirected = False
    if reply.status == Status.MOVED_PERMANENTLY:
        ask = replace(ask, uri=redirected_to(ask.uri, reply.headers.get("location")))
        reply = await answer(ask)
        redirected = True
        if reply.status == Status.MOVED_PERMANENTLY:
            raise VerificationFailed("The host redirects a second time.", _ASK_OPERATOR)
    check_agent(ask.uri, reply)
    return Located(uri=ask.uri, reply=reply, redirected=redirected)


def redirected_to(uri: AgtpUri, location: str | None) -> AgtpUri:
    """
    Return the URI that a 301 means.

    :raises VerificationFailed: if it means none, another agent, or leaves the authority: only the
        same host, or the ``agtp.`` subdomain of the same domain, may be named.
    """
    shown = escape(str(location)[:200])
    if location is None:
        raise VerificationFailed("The host redirects and does not say where to.", _ASK_OPERATOR)
    path = _AGENT_PATH.fullmatch(location)
    if path is not None and (uri.agent_id is None or path[1] == uri.agent_id):
        name = None if uri.agent_id is not None else path[1]
        return replace(uri, agent_name=name, status=path[2] is not None)
    try:
        target = uris.parse(location)
    except UriError as error:
        raise VerificationFailed(
            f"The host redirects to {shown}, which is not an address: {error.explanation}", _ASK_OPERATOR
        ) from None
    if target.host not in (uri.host, f"agtp.{uri.host}") and uri.host != f"agtp.{target.host}":
        raise VerificationFailed(
            f"The host redirects to another authority: {shown}.", "Resolve that URI itself if you trust it."
        )
    if uri.agent_id is not None and target.agent_id != uri.agent_id and target.agent_name != uri.agent_id:
        raise VerificationFailed(f"The host redirects to another agent: {shown}.", _ASK_OPERATOR)
    if target.agent_name is not None and is_agent_id(target.agent_name):
        target = replace(target, form=Form.AGENT_AT_HOST, agent_id=target.agent_name, agent_name=None)
    return target if target.query is not None else replace(target, query=uri.query)


def check_agent(uri: AgtpUri, reply: Reply) -> None:
    """
    Refuse a document that is of another agent than the URI names (AGTP-099).

    :raises VerificationFailed: then the document is not to be used.
    """
    if uri.agent_id is None or not reply.ok or format_of(uri) in ("yaml", "html"):
        return
    document = reply.result if isinstance(reply.result, dict) else {}
    named = document.get("agent_id", document.get("canonical_id"))
    if named != uri.agent_id:
        who = f"of {named}" if isinstance(named, str) and is_agent_id(named) else "without an Agent-ID"
        raise VerificationFailed(
            f"The host answered {uri.agent_id} with a document {who}.", "Do not use it; ask another host."
        )
