"""``[[a2a.agent]]``, ``[[acp.agent]]`` and ``[a2a.front]``: A2A and ACP, behind this host and before it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agtphost.config import secret
from agtphost.config.http import HttpSection
from agtphost.config.upstreams import UpstreamSection, web_url
from agtphost.config.values import (
    Digest,
    Items,
    Line,
    Method,
    MinAssurance,
    Scope,
    Seconds,
    SecretReference,
    Section,
    Table,
    Text,
    form,
)
from agtphost.identity.peer import Assurance


def base_url(value: Any) -> str:
    """Check that paths can be put behind a URL, and return it. :raises ValueError: they cannot."""
    text = web_url(value)
    if "?" in text:
        raise ValueError("must not contain a query")
    return text.rstrip("/")


def _https(value: Any) -> str:
    text = web_url(value)
    if not text.startswith("https://"):
        raise ValueError("must be https")
    return text


def _push_origin(value: Any) -> str:
    text = secret.text_of(value)
    if text != "*" and re.fullmatch(r"https?://[^/?#@:\s\[\]]+(:[0-9]{1,5}|:\*)?", text, re.ASCII) is None:
        raise ValueError('must be an origin, such as "https://hooks.example" or "http://localhost:*", or "*"')
    return text.lower()


RequestPath = Annotated[
    str, Text, form(r"/[\x21\x22\x24-\x3e\x40-\x7e]{0,1023}", 'must be a path that begins with "/"')
]
Member = Annotated[
    str,
    Text,
    form(
        r"(?:[A-Za-z0-9_-]{1,64}(?:\.[A-Za-z0-9_-]{1,64}){0,7})?",
        "must be the name of a member, or names with dots between",
    ),
]


class WebUpstreamSection(UpstreamSection):
    """The keys of both kinds of upstreams over HTTP."""

    url: Annotated[str, BeforeValidator(base_url)] = ""
    """Required: https, or http on this machine's own loopback addresses."""

    refresh: Seconds = 300.0
    """After which it is asked again what it is."""

    min_assurance: MinAssurance = Assurance.CERTIFICATE
    """How surely its callers must be known."""

    forward_identity: bool = False
    """Tell the upstream the caller's Agent-ID, in its metadata."""

    approval: Literal["required"] | None = None
    """``required``: a person approves what is sent, and not what reads or cancels; None: as ``[approvals]`` says."""


class A2AAgentSection(WebUpstreamSection):
    """An entry of ``[[a2a.agent]]``; its card is fetched from below the url, at ``/.well-known/agent-card.json``."""

    scopes: Items[Scope] = ("a2a:messages:send",)
    """What its callers must hold."""

    pin: Digest | None = None
    """SHA-256 of the approved card; None: the first that is fetched is what is approved."""

    card_keys: Table[str, Line] = Field(default_factory=dict)
    """Who may have signed the card, by ``kid``: base64url of an Ed25519 key, or ``file:PATH`` of a PEM or JWK file."""

    push_url: Annotated[str | None, BeforeValidator(_https)] = None
    """Where the agent may send push notifications; no caller can name another place."""

    push_origins: Items[Annotated[str, BeforeValidator(_push_origin)]] = ()
    """
    Where clients of the front may have the agent push to: ``https://hooks.example``, ``http://localhost:*`` for any
    port, or ``*``. The agent itself calls these URLs; empty: the front offers no push notifications of this agent.
    """


class ACPServerSection(WebUpstreamSection):
    """An entry of ``[[acp.agent]]``: a server of the Agent Communication Protocol (IBM/BeeAI) with its agents."""

    scopes: Items[Scope] = ("acp:runs:execute",)
    """What its callers must hold."""

    agents: Items[Line] = ()
    """Those that may be reached; empty: every one that the server lists."""

    pins: Table[str, Digest] = Field(default_factory=dict)
    """Approved digests of manifests by agent; without one, the first that is listed is what is approved."""

    unmatched_rules: Literal["off", "warn"] | None = None
    """
    Of names in ``agents`` and ``pins`` that the server does not list: ``off`` keeps all its agents off, ``warn`` tells
    them and goes on; None: ``off`` in production, ``warn`` in development.
    """


class FrontAgent(Section):
    """An entry of ``[[a2a.front.agent]]``: a hosted agent that A2A clients reach, and what a message to it calls."""

    name: Line = ""
    """The hosted agent's label. Required."""

    method: Method = "QUERY"
    """The method that a message calls."""

    path: RequestPath = "/"
    """The path that it calls: no template."""

    input: Table[str, Any] = Field(default_factory=dict)
    """What is always in the input; for EXECUTE its action, payload_type and payload."""

    text: Member | None = None
    """
    The member of the input that gets the message's text, such as ``payload.arguments.question``; empty: none, and the
    agent takes data alone. Without it: ``text`` where the endpoint has that, else the one member that it requires.
    """

    answer: Member = ""
    """The member of the result that is the answer's text; empty: the whole result is the answer, as data."""

    upstream: Line | None = None
    """
    The name of an ``[[a2a.agent]]``: every operation is carried to that agent as it is, and ``name`` is what it is
    called here. ``method``, ``path``, ``input``, ``text`` and ``answer`` are for hosted agents alone.
    """


class A2AFront(HttpSection):
    """The section ``[a2a.front]``: an HTTP endpoint at which A2A clients reach hosted agents."""

    url: Annotated[str | None, BeforeValidator(base_url)] = None
    """How clients reach it: what cards say."""

    agent_id: Line | None = None
    """
    The name or the Agent-ID of the agent in whose name clients call that have neither a certificate nor a token of
    ``[[http.client]]``: nothing in HTTP can choose another. Required, unless there are such clients alone.
    """

    client_certificates: bool = False
    """
    Ask clients for a certificate of ``[tls] client_ca``; one with an AGTP identity makes its agent the caller, with
    assurance ``certificate``. Only with ``ssl``.
    """

    oauth: bool = False
    """Admit tokens of the providers of ``[policies.oauth]``: they say on whose behalf ``agent_id`` calls."""

    scopes: Items[Scope] = ()
    """What that agent claims for these calls."""

    tokens: Items[SecretReference] = ()
    """Bearer tokens of admitted clients; only an endpoint on loopback may have none."""

    timeout: Seconds = 60.0
    """How long SendMessage waits for the end of the call; the task goes on after that."""

    agent: Items[FrontAgent] = ()


class A2A(Section):
    """The section ``[a2a]``: A2A agents behind this host, and the front where A2A clients reach it."""

    agent: Items[A2AAgentSection] = ()
    front: A2AFront = Field(default_factory=A2AFront)


class ACP(Section):
    """The section ``[acp]``: ACP servers behind this host."""

    agent: Items[ACPServerSection] = ()
