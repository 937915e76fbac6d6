"""
Route the requests of an HTTP listener to its surfaces, behind common rules.

The rules are checked by the head of a request, before its body is read, in this order:

- a field that decides something may occur only once (400), including ``Host``;
- the path belongs to a surface (404);
- the ``Host`` is a name of this surface (421): a foreign page whose name was pointed at this address (DNS rebinding)
  still sends its own name;
- the request does not come from a foreign page (403): see :meth:`Mount.is_foreign`;
- the body has no coding (415), and no expectation but 100-continue (417);
- then the surface itself decides: :class:`agtphost.http.bounded_request.Gatekeeper`.

Foreign pages can read an answer only where a surface has :class:`agtphost.http.cross_origin.CrossOrigin` and lists
their origin; their preflights are answered here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from agtphost.http.bounded_request import BoundedRequest, field_of
from agtphost.http.cross_origin import CrossOrigin
from agtphost.http.refusals import RefusalRecorder, refuse
from agtphost.http.request_heads import spell_name
from agtphost.vocabulary.mount_paths import MountPath
from agtphost.vocabulary.reasons import Reason

SINGLE_FIELDS = frozenset(
    (
        *("host", "content-type", "content-encoding", "content-length", "transfer-encoding", "expect"),
        *("access-control-request-method", "access-control-request-headers", "access-control-request-private-network"),
        *("authorization", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "a2a-version"),
    )
)
"""Fields that may occur once: a proxy that uses the first and a server that uses the last would disagree."""

UNUSUAL_FIELDS = frozenset(spell_name(name) for name in (b"origin", b"sec-fetch-site", b"content-encoding", b"expect"))
"""Fields that browsers and few other clients send; a request without them is neither foreign nor encoded."""

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Names of a machine's own loopback addresses."""

LONGEST_SHOWN = 64
"""Characters of a name that a refusal repeats."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.:-_[]")

_AUTHORITY = re.compile(
    r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)


@dataclass(frozen=True, kw_only=True)
class Mount:
    """
    A surface at one of its paths.

    :param surface: its name, for access lines.
    :param resource: a leaf and a :class:`agtphost.http.bounded_request.Gatekeeper`.
    """

    surface: str
    path: MountPath
    resource: Any

    section: str = ""
    """The section of the configuration that configures it, such as ``mcp.front``, for refusals; may be empty."""

    hosts: frozenset[str] = frozenset()
    """``Host`` fields in lower case; one without a port matches every port. Empty: those of the listener."""

    url_host: str = ""
    """The host of the configured URL, which is accepted too."""

    origins: frozenset[str] = frozenset()
    """Origins of foreign pages, in lower case, whose requests are accepted."""

    pages: bool = False
    """
    Whether it serves pages: then those may send requests (same origin), and a foreign link may lead to one.

    A followed link requests a whole document in its own window (``navigate`` to a ``document``, by GET). The page with
    the link reads nothing of the answer, cannot show it in a frame, and a ``SameSite=Strict`` cookie is not sent, so
    the answer is one for anonymous clients. Any other request of a foreign page is refused.
    """

    own_origin: bool = False
    """Whether requests with its own origin are accepted although it serves no pages: programs send that origin too."""

    fields: tuple[tuple[str, str], ...] = ()
    """Header fields of every answer, even of refusals before the surface's own."""

    cross_origin: CrossOrigin | None = None
    """The foreign pages that may read its answers; None: none may."""

    door: RefusalRecorder | None = None
    """Records requests that are refused before anything is called; None: they are not recorded."""

    def is_foreign(self, request: BoundedRequest, authority: str) -> bool:
        """Return whether a foreign page sent this request; browsers say so in fields that pages cannot change."""
        origin, site = _read_field(request, "origin"), _read_field(request, "sec-fetch-site")
        own = self.pages or self.own_origin
        if origin:
            scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
            return origin not in self.origins and not (own and origin == f"{scheme}://{authority}")
        if site in ("", "none") or (site == "same-origin" and own):
            return False
        led = (
            _read_field(request, "sec-fetch-mode") == "navigate"
            and _read_field(request, "sec-fetch-dest") == "document"
        )
        return not (self.pages and led and request.method in (b"GET", b"HEAD"))


class Mounts(Resource):
    """
    The surfaces of one listener.

    :param mounts: no two of which overlap.
    :param names: of the listener's certificate, in lower case; ``*.`` matches one label.
    :raises ValueError: two mounts overlap.
    """

    isLeaf = True

    def __init__(self, mounts: Sequence[Mount], names: Collection[str] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        for number, mount in enumerate(mounts):
            for other in mounts[:number]:
                if mount.path.overlaps(other.path):
                    raise ValueError(f"{mount.path} of {mount.surface} overlaps {other.path} of {other.surface}")
        self._mounts = tuple(sorted(mounts, key=lambda mount: mount.path.rest))
        self._fixed_fields = {id(mount): _lines(mount.fields) for mount in mounts}
        self.names = frozenset(names)

    def admit(self, request: BoundedRequest) -> bytes | None:
        """Set the request's mount, and return None if its surface may judge the request, or a refusal."""
        path = request.path.decode("ascii", "replace")
        request.mount = mount = self._mount_at(path)
        if mount is not None:
            request.responseHeaders.by_name.update({name: [value] for name, value in self._fixed_fields[id(mount)]})
        for name, values in request.requestHeaders.getAllRawHeaders() if request.repeats else ():
            if len(values) > 1 and (field := name.lower().decode("ascii", "replace")) in SINGLE_FIELDS:
                said = f"The header field {field} occurs {len(values)} times, and may occur only once."
                return refuse(request, 400, Reason.REPEATED_HEADER, said)
        sharing = None if mount is None else mount.cross_origin
        if sharing is not None:
            # Of refusals too, so that a page can tell that its Host is not served here.
            sharing.allow_reading(request, _read_field(request, "origin"))
        if not request.uri.startswith(b"/"):
            said = "This server is not a proxy: the request target must begin with a slash."
            return refuse(request, 400, Reason.INVALID_REQUEST_LINE, said)
        authority = _read_field(request, "host")
        if not authority and request.clientproto != b"HTTP/1.0":
            said, remedy = "The header field Host is missing.", "Send Host with the name and port of this server."
            return refuse(request, 400, Reason.INVALID_HEADER_FIELD, said, remedy=remedy)
        if not self._is_served(mount, authority, request):
            said = f"This listener does not serve the host name {show_name(authority)}."
            return refuse(request, 421, Reason.NOT_ENTITLED, said, remedy=self._naming_hint(mount))
        if mount is None:
            return refuse(request, 404, Reason.NOT_FOUND, "There is nothing at this path.")
        if sharing is not None:
            answered = sharing.answer_preflight(request, _read_field(request, "origin"))
            if answered is not None:
                return answered
        return self._refuse_unusual(mount, request, authority)

    @staticmethod
    def _refuse_unusual(mount: Mount, request: BoundedRequest, authority: str) -> bytes | None:
        """Check the fields that few requests have."""
        if request.requestHeaders.by_name.keys().isdisjoint(UNUSUAL_FIELDS):
            return None
        if mount.is_foreign(request, authority):
            said, remedy = (
                "Requests from pages of that origin are not accepted here.",
                f"The operator can add the origin of the page to the key origins of {_section_of(mount)}.",
            )
            return refuse(request, 403, Reason.NOT_ENTITLED, said, remedy=remedy)
        if _read_field(request, "content-encoding"):
            said, fields = "Bodies with Content-Encoding are not accepted.", ("Accept-Encoding", "identity")
            remedy = "Send the body uncompressed, and leave Content-Encoding out."
            return refuse(request, 415, Reason.UNSUPPORTED_MEDIA_TYPE, said, fields, remedy=remedy)
        if _read_field(request, "expect") not in ("", "100-continue"):
            return refuse(request, 417, Reason.INVALID_HEADER_FIELD, "Only Expect: 100-continue is supported.")
        return None

    def _naming_hint(self, mount: Mount | None) -> str:
        """Return what the operator can do so that a name is served: behind a proxy, clients send the proxy's."""
        return (
            f"If clients reach this host by that name, the operator adds it to the key hosts of {_section_of(mount)}."
        )

    def _mount_at(self, path: str) -> Mount | None:
        for mount in self._mounts:
            if mount.path.covers(path):
                return mount
        return None

    @staticmethod
    def too_large(request: BoundedRequest) -> bytes:
        """Refuse a body that its surface does not accept."""
        said = f"The body has more than {request.mount.resource.longest_body} octets."
        return refuse(request, 413, Reason.BODY_TOO_LARGE, said)

    @staticmethod
    def too_much(request: BoundedRequest) -> bytes:
        """Refuse a body because other bodies fill the memory for them."""
        said = "Other requests fill the memory for bodies; try again."
        return refuse(request, 503, Reason.HANDLERS_BUSY, said, ("Retry-After", "5"))

    def _is_served(self, mount: Mount | None, authority: str, request: BoundedRequest) -> bool:
        """Return whether a name is served; the last result is remembered, since a connection repeats its name."""
        if mount is None:
            return any(self._answers(each, authority, request) for each in self._mounts)
        asked = (mount, self.names, authority)
        if request.channel.reached == asked:
            return True
        if not self._answers(mount, authority, request):
            return False
        request.channel.reached = asked
        return True

    def _answers(self, mount: Mount, authority: str, request: BoundedRequest) -> bool:
        found = _AUTHORITY.fullmatch(authority)
        if found is None:
            return False
        name, port = found["name"], found["port"]
        if mount.url_host and authority == mount.url_host:
            return True
        if mount.hosts:
            return authority in mount.hosts or name in mount.hosts
        if name in self.names or f"*.{name.partition('.')[2]}" in self.names:
            return True
        here: Any = request.getHost()  # type: ignore[no-untyped-call]
        address = str(getattr(here, "host", ""))
        if name not in LOOPBACK_NAMES:
            return False
        if not address:
            return port is None  # a socket in this machine's file system
        usual = 443 if request.isSecure() else 80  # type: ignore[no-untyped-call]
        local = address.startswith("127.") or address in ("::1", "localhost")
        return local and int(port or usual) == getattr(here, "port", 0)

    def render(self, request: BoundedRequest) -> Any:
        """Return the answer of the surface of the path."""
        assert request.mount is not None, "it was not refused"
        answered = request.mount.resource.render(request)
        # A refusal by the surface is recorded like an earlier one: nothing was called.
        return NOT_DONE_YET if type(answered) is bytes and request.record_refusal(request.complete) else answered


def _section_of(mount: Mount | None) -> str:
    """Return the section of the configuration that an operator changes for a surface."""
    return "the section" if mount is None or not mount.section else f"[{mount.section}]"


def show_name(authority: str) -> str:
    """Return a name for a refusal, bounded, with unusual characters replaced."""
    text = "".join(sign if sign in _PLAIN else "?" for sign in authority[:LONGEST_SHOWN])
    return repr(text)


def _lines(fields: Collection[tuple[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    """Return fields with names and values as octets."""
    return tuple((spell_name(name.encode("ascii")), value.encode("utf-8")) for name, value in fields)


def _read_field(request: BoundedRequest, name: str) -> str:
    """Return a field in lower case without surrounding space; empty if it is absent."""
    return (field_of(request, name) or "").strip().lower()
