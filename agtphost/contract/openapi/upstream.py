"""The upstream of an imported endpoint: address, headers, and its names of the input (AGTP-API section 12.3)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from agtphost.contract.openapi.names import PARAMETER, ChosenPath
from agtphost.contract.openapi.schemas import OpenAPIReferences, SchemaConverter
from agtphost.contract.service import BODY_METHODS, MAY_HAVE_BODY, header_name_faults, url_faults

TIMEOUT = 30
"""Seconds: the draft's default, written explicitly as it recommends."""

UNKNOWN_HOST = "https://upstream.invalid"

_KEPT = "%-._~!$&'()*+,;=:@"
"""Characters of a path's segment in addition to letters and digits."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """An operation together with its document and path."""

    document: Mapping[str, Any]
    references: OpenAPIReferences
    converter: SchemaConverter
    http: str
    source_path: str
    path: ChosenPath
    item: Mapping[str, Any]
    methods: Collection[str] = ()
    """The names of methods, which no segment of a request's path may be."""

    @property
    def operation(self) -> Mapping[str, Any]:
        """Return the operation's own object."""
        found: Mapping[str, Any] = self.item[self.http]
        return found

    @property
    def sends_body(self) -> bool:
        """Return whether an external_service handler sends a body with this HTTP method."""
        return self.http.upper() in BODY_METHODS

    @property
    def may_send_body(self) -> bool:
        """Return whether the handler can send a body if ``handler.body`` is set."""
        return self.http.upper() in MAY_HAVE_BODY


@dataclass(kw_only=True)
class Upstream:
    """
    Builder of the ``handler`` table of one operation.

    :param reviews: list for what a person has to review.
    :param losses: counts what is lost.
    """

    facts: Facts
    reviews: list[str]
    losses: Counter[str]
    headers: dict[str, str] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)
    """Maps our names of input members to the upstream's; placeholders in the URL have ours."""

    queried: list[str] = field(default_factory=list)
    """Our names of members that go into the query."""

    body: str = ""
    """The format of the body; empty if there is none."""

    whole_body: str = ""
    """Our name of the member that is the whole body."""

    input_headers: dict[str, str] = field(default_factory=dict)
    """Maps our names to header fields."""

    encoding: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Formats of members, by our names."""

    empty_response: bool = False
    """Whether the document has a success without a body, other than 204 and 205."""

    def handler(self, error_map: Mapping[str, str]) -> dict[str, Any]:
        """Return the table."""
        found: dict[str, Any] = {
            "type": "external_service",
            "url": self._url(),
            "method": self.facts.http.upper(),
            "timeout_seconds": TIMEOUT,
        }
        if self.body not in ("", "json") or (self.body and not self.facts.sends_body):
            found["body"] = self.body
        if self.whole_body:
            found["whole_body"] = self.whole_body
        if self.empty_response:
            found["empty_response"] = True
        if self.queried and (self.facts.sends_body or self.body):
            found["query"] = self.queried
        tables = {
            "headers": self.headers,
            "input_headers": self.input_headers,
            "input_transform": self._transform(),
            "encoding": self.encoding,
            "error_map": dict(error_map),
        }
        found.update((name, table) for name, table in tables.items() if table)
        return found

    def _transform(self) -> dict[str, str]:
        """Return the renames, with identities for URL members whose name another member is sent under."""
        theirs = set(self.renames.values())
        named = [*self.facts.path.parameters.values(), *self.queried]
        kept = {name: name for name in named if name in theirs and name not in self.renames}
        return {**kept, **self.renames}

    # The URL

    def _url(self) -> str:
        address = UNKNOWN_HOST
        for place in (self.facts.operation, self.facts.item, self.facts.document):
            servers = place.get("servers")
            if isinstance(servers, list) and servers and isinstance(servers[0], Mapping):
                if len(servers) > 1:
                    self.losses["further servers"] += 1
                address = self._server(servers[0])
                break
        else:
            self.reviews.append("[handler.url] the document has no server")
        if any(url_faults(address)):
            self.reviews.append(f"[handler.url] the server's address cannot be called: {address[:80]}")
            address = UNKNOWN_HOST
        base, _, fixed = address.partition("?")
        path, query = self._path()
        fields = [part for part in (fixed, query) if part]
        return base.rstrip("/") + path + ("?" + "&".join(fields) if fields else "")

    def _path(self) -> tuple[str, str]:
        """Return path and query without the fragment, which only distinguishes operations and is never sent."""
        path, _, query = self.facts.source_path.partition("#")[0].partition("?")
        places = iter(self.facts.path.parameters.values())
        segments = [
            "".join(f"{{{next(places)}}}" if place else _quote(text) for text, place in _split(segment))
            for segment in path.split("/")
        ]
        kept = [segment for segment in segments if segment not in (".", "..")]
        if len(kept) < len(segments):
            self.reviews.append("[handler.url] dot segments of the path are left out")
        pairs = query.split("&") if query else []
        fixed = [_quote(pair, "?/") for pair in pairs if "{" not in pair and "}" not in pair]
        if len(fixed) < len(pairs):
            self.reviews.append(
                "[handler.url] variable parts of the path's query are sent only if a parameter declares them"
            )
        return "/".join(kept), "&".join(fixed)

    def _server(self, server: Mapping[str, Any]) -> str:
        url = str(server.get("url", "")).partition("#")[0]
        variables = server.get("variables")
        for name, variable in variables.items() if isinstance(variables, Mapping) else ():
            value = variable.get("default", "") if isinstance(variable, Mapping) else ""
            url = url.replace(f"{{{name}}}", str(value))
        if "{" in url:
            self.reviews.append("[handler.url] a variable of the server's address has no default")
        if url.startswith("http://"):
            self.reviews.append("[handler.url] the document has http://, but only https:// is allowed")
            return "https://" + url.removeprefix("http://")
        if not url.startswith("https://"):
            self.reviews.append("[handler.url] the document has only a relative address")
            return f"{UNKNOWN_HOST}/{url.strip('/')}" if url.strip("/") else UNKNOWN_HOST
        return url

    # Credentials

    def read_security(self) -> None:
        """Add the credentials of the first alternative that header fields can carry, as placeholders."""
        asked = self.facts.operation.get("security", self.facts.document.get("security"))
        if not isinstance(asked, list) or not asked or not isinstance(asked[0], Mapping):
            return
        if len(asked) > 1:
            self.losses["further ways to authenticate"] += 1
        schemes = self.facts.references.find("#/components/securitySchemes")
        known = schemes if isinstance(schemes, Mapping) else {}
        ways = [
            {str(name): self.facts.references.follow(known.get(name)) for name in way}
            for way in asked
            if isinstance(way, Mapping)
        ]
        chosen = next((way for way in ways if all(map(_is_in_header, way.values()))), ways[0])
        for name, scheme in chosen.items():
            self._credential(name, scheme)

    def _credential(self, name: str, scheme: Mapping[str, Any]) -> None:
        variable = re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_") or "CREDENTIAL"
        if variable[0].isdigit():
            variable = f"CREDENTIAL_{variable}"
        if not _is_in_header(scheme):
            self.losses["credentials that do not go into a header"] += 1
            self.reviews.append(f"[handler.headers] the upstream requires {name!r}, which is not sent in a header")
            return
        if scheme.get("type") == "apiKey":
            self.headers[str(scheme.get("name"))] = f"${{{variable}}}"
        else:
            basic = scheme.get("type") == "http" and str(scheme.get("scheme")).lower() == "basic"
            self.headers["Authorization"] = f"{'Basic' if basic else 'Bearer'} ${{{variable}}}"
        self.reviews.append(f"[handler.headers] the host sends one credential, ${{{variable}}}, for all callers")


def _is_in_header(scheme: Mapping[str, Any]) -> bool:
    """Return whether a header field carries the credential of a security scheme."""
    if scheme.get("type") == "apiKey":
        return scheme.get("in") == "header" and not any(header_name_faults(scheme.get("name")))
    return scheme.get("type") in ("http", "oauth2", "openIdConnect")


def _split(segment: str) -> Sequence[tuple[str, bool]]:
    """Return the texts of a segment, each with whether it is the name of a parameter."""
    parts = PARAMETER.split(segment)
    return [(text, at % 2 == 1) for at, text in enumerate(parts) if text or at % 2]


def _quote(text: str, more: str = "") -> str:
    return re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", quote(text, safe=_KEPT + more))
