"""``[policies]`` and ``[policies.methods]``: AGTP-API sections 8.7 and 9, with the drafts' own names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agtphost.config.bounds import ScopeDimensionSection
from agtphost.config.oauth import OAuth
from agtphost.config.values import Items, Line, Method, Section, Table, form
from agtphost.vocabulary.catalog import LEGACY, is_method_name
from agtphost.vocabulary.catalog_profile import is_profile_name

SEED_ALIASES: Mapping[str, str] = {
    "GET": "FETCH",
    "POST": "CREATE",
    "PUT": "REPLACE",
    "DELETE": "REMOVE",
    "PATCH": "MODIFY",
}
"""The aliases of a host that declares none (AGTP-API section 9.2)."""


OVERRIDABLE = ("/methods", "/agents", "/tools", "/apis", "/patterns", "/contracts")
"""Built-ins that an operator may answer himself; the manifest and the Genesis are evidence, and are not among them."""


def _methods_or(word: str) -> Any:
    """Reads one fixed word, or a list of method names."""

    def read(value: Any) -> str | tuple[str, ...]:
        if value == word:
            return word
        return _names(value, f'must be "{word}" or a list of method names')

    return read


def _names(value: Any, otherwise: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        raise ValueError(otherwise)
    for name in value:
        if not is_method_name(name):
            raise ValueError(f"holds {name[:40]!r}, which is not a method name (3 to 32 letters A-Z)")
    return tuple(value)


def _legacy(value: Any) -> str | tuple[str, ...]:
    if value in ("*", "NONE"):
        return str(value)
    names = _names(value, f'must be "NONE", "*" or a list of {", ".join(LEGACY)}')
    for name in names:
        if name not in LEGACY:
            raise ValueError(f"holds {name!r}, which is not one of {', '.join(LEGACY)}")
    return names


def _path(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or re.fullmatch(r"/[\x21-\x7e]*", value, re.ASCII) is None:
        raise ValueError('must be a path that begins with "/"')
    return value


def _profile(value: Any) -> str:
    if not isinstance(value, str) or not is_profile_name(value):
        raise ValueError(f"holds {str(value)[:64]!r}, which is not a profile name (agtp-profile-NAME)")
    return value


class Redirect(Section):
    """An entry of ``[[policies.methods.redirects]]``: a request that is answered as if it were another."""

    from_method: Method = ""
    """The method of the request. Required."""

    from_path: Annotated[str | None, BeforeValidator(_path)] = None
    """None: on every path."""

    to_method: Method = ""
    """The method that answers. Required."""

    to_path: Annotated[str | None, BeforeValidator(_path)] = None
    """None: the request's own path."""


class MethodPolicy(Section):
    """The section ``[policies.methods]``: which methods are accepted, and under which other names."""

    allow: Annotated[Any, BeforeValidator(_methods_or("*"))] = "*"
    """``"*"``, or a tuple of names; the floor methods are always admitted besides."""

    disallow: Items[Method] = ()
    """Names that are not admitted, even if ``allow`` lists them; never floor methods."""

    legacy: Annotated[Any, BeforeValidator(_legacy)] = "NONE"
    """``"NONE"``, ``"*"``, or a tuple of HTTP verbs."""

    aliases: Table[Method, Method] = Field(default_factory=lambda: dict(SEED_ALIASES), validate_default=True)
    """Wire name to catalog name, in one hop."""

    redirects: Items[Redirect] = ()
    custom: Items[Method] = ()
    """Methods beyond the catalog that endpoints here use (AGTP-API section 3.3)."""

    profiles: Items[Annotated[str, BeforeValidator(_profile)]] = ()
    """Profiles whose methods are valid here (core v08 section 7.4.3); their files are ``[catalog] profiles``."""

    def chained_aliases(self) -> Iterable[str]:
        """Return the aliases whose target is itself an alias, which the drafts forbid."""
        return (name for name, target in self.aliases.items() if target in self.aliases)


class RCNS(Section):
    """
    The section ``[policies.rcns]``: the gate for requests that nothing is registered for (AGTP-API section 10.1.7).
    """

    enabled: bool = False
    """Whether such requests may lead to a contract at all."""

    mode: Literal["confirm-first", "optimistic"] = "confirm-first"
    """``confirm-first`` shows what would be done (461) and waits for consent; ``optimistic`` does it directly."""

    min_trust_tier: Annotated[int, Field(ge=1, le=3)] = 1
    """The weakest trust tier admitted; 1 is the strictest."""

    rate_limit_per_minute: Annotated[int, Field(ge=1, le=100_000)] = 10
    """Such requests of one agent."""

    contract_ttl_seconds: Annotated[int, Field(ge=1, le=31_536_000)] = 86_400
    """How long a contract lives that resulted from such a request."""

    preview_ttl_seconds: Annotated[int, Field(ge=1, le=86_400)] = 300
    """How long a preview (461) waits to be accepted."""

    on_policy_change: Literal["grandfather", "invalidate"] = "grandfather"
    """Contracts of edited recipes: they go on as they are, or are ended."""


class Synthesis(Section):
    """The section ``[policies.synthesis]``: what PROPOSE may lead to, once ``synthesis_enabled`` is true."""

    approval: Literal["automatic", "operator"] = "automatic"
    """``operator``: what passes every evaluation waits for an agent with the scope ``inspect:all``."""

    review_seconds: Annotated[int, Field(ge=1, le=2_592_000)] = 3_600
    """How long an operator has; afterwards the proposal is rejected."""

    session_ttl_seconds: Annotated[int, Field(ge=1, le=604_800)] = 3_600
    """How long a session-scoped endpoint lives at most."""

    max_duration_seconds: Annotated[int, Field(ge=1, le=31_536_000)] = 86_400
    """The longest duration granted to a request for one."""

    persistent: bool = False
    """Whether persistent synthesis is honoured, for agents with the scope ``rcns:persist``."""

    max_impact: Literal["informational", "reversible", "irreversible"] = "reversible"
    """The gravest impact that a synthesized endpoint may have."""

    unclassified: bool = False
    """
    Whether endpoints that declare no ``data_classes`` are negotiated too. ``false``: only what works with data of
    ``[[data_class]]`` is (AGIS v01 section 8.3).
    """

    rate_limit_per_minute: Annotated[int, Field(ge=1, le=100_000)] = 10
    """Proposals of one agent."""

    max_contracts_per_agent: Annotated[int, Field(ge=1, le=10_000)] = 32
    """Contracts of one agent at a time."""


BuiltInPath = Annotated[
    str, form(OVERRIDABLE.__contains__, f"holds {{}}, which is not one of {', '.join(OVERRIDABLE)}")
]
DottedPath = Annotated[
    str,
    form(
        r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+",
        "must be a dotted path such as package.module.function",
    ),
]


class Policies(Section):
    """The section ``[policies]``: published unchanged in the manifest."""

    wildcards_accepted: bool = False
    """The host's side of the consent to methods that nothing is registered for (AGTP-API section 16.4)."""

    anonymous_discovery: bool = True
    """Whether callers without an identity may DISCOVER and DESCRIBE."""

    scope_required_for_invocation: bool = True
    """What the manifest says of invocation; which scopes an endpoint needs, its own file says."""

    synthesis_enabled: bool = False
    """Whether agents may PROPOSE endpoints that are missing."""

    max_synthesis_depth: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Steps of one synthesized endpoint."""

    agent_disclosure: Literal["public", "authenticated", "private"] = "public"
    """Who sees which agents are hosted (AGTP-API section 8.5)."""

    agent_disclosure_notice: Line | None = None
    """Published next to ``agent_disclosure``: for people."""

    zone_filtering: bool = False
    """
    Whether DISCOVER /agents leaves out agents of zones that the caller may not look into; searches always do.

    A caller of no zone then sees agents of no zone, and of those that are open to all.
    """

    zones: Table[Line, Items[Line]] = Field(default_factory=dict, validate_default=True)
    """Governance zone to the further zones that its agents may look into; ``"*"`` is for every caller."""

    builtins: Table[BuiltInPath, DottedPath] = Field(default_factory=dict, validate_default=True)
    """Built-in DISCOVER path to the function that answers instead (AGTP-API section 5.9)."""

    scope_dimensions: Items[ScopeDimensionSection] = ()
    """What parameters may be, beyond the scopes: answered 455 outside."""

    methods: MethodPolicy = Field(default_factory=MethodPolicy)
    rcns: RCNS = Field(default_factory=RCNS)
    synthesis: Synthesis = Field(default_factory=Synthesis)
    oauth: OAuth = Field(default_factory=OAuth)
