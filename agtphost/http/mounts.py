"""
What one HTTP listener serves: each surface at its own paths, and one set of rules before all of them.

In this order, all of it by the head of a request, before any of its body is taken:

- a field that decides something stands there once (400), the ``Host`` field among them;
- the path is one of a surface (404);
- the ``Host`` is one that this surface is known by (421): a page elsewhere whose name has been pointed at this address
  (DNS rebinding) still says its own name;
- the request is of no page elsewhere (403): see :meth:`Mount.foreign`;
- the body is as it was made (415), and nothing is expected of us but to go on (417);
- then the surface itself decides: :class:`agtphost.http.exchange.Gatekeeper`.

Pages elsewhere can read an answer only where a surface has :class:`agtphost.http.cross_origin.CrossOrigin`, and lists
their origin; a preflight of such a page is answered here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from agtphost.http.cross_origin import CrossOrigin
from agtphost.http.exchange import BoundedRequest, field_of
from agtphost.http.heads import spelled
from agtphost.http.refusals import Door, refused
from agtphost.vocabulary.mount_paths import MountPath
from agtphost.vocabulary.reasons import Reason

SINGLE = frozenset(
    (
        *("host", "content-type", "content-encoding", "content-length", "transfer-encoding", "expect"),
        *("access-control-request-method", "access-control-request-headers", "access-control-request-private-network"),
        *("authorization", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "a2a-version"),
    )
)
"""Fields that stand in a request once: a proxy that believes the first and a server that believes the last disagree."""

LOCAL = ("localhost", "127.0.0.1", "[::1]")
"""What a machine's own loopback addresses are called, by its own users."""

LONGEST_SHOWN = 64
"""Signs of a name that a refusal repeats."""

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.:-_[]")

_AUTHORITY = re.compile(
    r"(?P<name>\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(?::(?P<port>[0-9]{1,5}))?", re.ASCII
)


@dataclass(frozen=True, kw_only=True)
class Mount:
    """
    A surface at one of its paths.

    :param surface: its name, for access lines.
    :param resource: a leaf and a :class:`agtphost.http.exchange.Gatekeeper`.
    """

    surface: str
    path: MountPath
    resource: Any

    section: str = ""
    """The section of the configuration that it is served for, such as ``mcp.front``; empty: none is told."""

    hosts: frozenset[str] = frozenset()
    """``Host`` fields in lower case; one without a port stands for every port. Empty: those of the listener."""

    url_host: str = ""
    """The host of the address that clients are told to use, beside these."""

    origins: frozenset[str] = frozenset()
    """Of pages elsewhere, in lower case, whose requests are taken."""

    pages: bool = False
    """
    Whether it serves pages: then those may ask (the same origin), and a link elsewhere may lead to one.

    Who follows a link has asked for a whole document in a window of its own (``navigate`` to a ``document``, by GET):
    the page that has the link reads nothing of the answer, cannot show it in a frame, and a cookie that is
    ``SameSite=Strict`` is not sent along, so that what is shown is what a stranger sees. Whatever else comes from
    elsewhere is refused.
    """

    home: bool = False
    """Whether a page of its own origin may ask although it serves none: programs say that origin as well."""

    fields: tuple[tuple[str, str], ...] = ()
    """Header fields of every answer, refusals before the surface's own included."""

    cross_origin: CrossOrigin | None = None
    """Which pages elsewhere may read its answers; None: none may."""

    door: Door | None = None
    """Puts on record what is refused before anything is called; None: nothing of it is."""

    def foreign(self, request: BoundedRequest, authority: str) -> bool:
        """Whether a page elsewhere has a browser send this: browsers say so, and pages cannot unsay it."""
        origin, site = _said(request, "origin"), _said(request, "sec-fetch-site")
        own = self.pages or self.home
        if origin:
            scheme = "https" if request.isSecure() else "http"  # type: ignore[no-untyped-call]
            return origin not in self.origins and not (own and origin == f"{scheme}://{authority}")
        if site in ("", "none") or (site == "same-origin" and own):
            return False
        led = _said(request, "sec-fetch-mode") == "navigate" and _said(request, "sec-fetch-dest") == "document"
        return not (self.pages and led and request.method in (b"GET", b"HEAD"))


class Mounts(Resource):
    """
    The surfaces of one listener.

    :param mounts: no two of which overlap.
    :param names: what the listener's certificate names, in lower case; ``*.`` stands for one label.
    :raises ValueError: two overlap.
    """

    isLeaf = True

    def __init__(self, mounts: Sequence[Mount], names: Collection[str] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        for number, mount in enumerate(mounts):
            for other in mounts[:number]:
                if mount.path.overlaps(other.path):
                    raise ValueError(f"{mount.path} of {mount.surface} overlaps {other.path} of {other.surface}")
        self._mounts = tuple(sorted(mounts, key=lambda mount: mount.path.rest))
        self._always = {id(mount): _lines(mount.fields) for mount in mounts}
        self.names = frozenset(names)

    def admit(self, request: BoundedRequest) -> bytes | None:
        """None for a request that its surface may judge, now in :attr:`BoundedRequest.mount`; or a refusal."""
        path = request.path.decode("ascii", "replace")
        request.mount = mount = self._at(path)
        if mount is not None:
            request.responseHeaders.by_name.update({name: [value] for name, value in self._always[id(mount)]})
        for name, values in request.requestHeaders.getAllRawHeaders():
            if len(values) > 1 and name.lower().decode("ascii", "replace") in SINGLE:
                said = "A field stands there twice that may stand there once."
                return refused(request, 400, Reason.REPEATED_HEADER, said)
        if not request.uri.startswith(b"/"):
            said = "This is no proxy: the target begins with a slash."
            return refused(request, 400, Reason.INVALID_REQUEST_LINE, said)
        authority = _said(request, "host")
        if not authority and request.clientproto != b"HTTP/1.0":
            return refused(request, 400, Reason.INVALID_HEADER_FIELD, "Host is missing.")
        if not self._known(mount, authority, request):
            said = f"Nothing is served by the name {shown(authority)} here."
            return refused(request, 421, Reason.NOT_ENTITLED, said, remedy=self._naming(mount))
        if mount is None:
            return refused(request, 404, Reason.NOT_FOUND, "Nothing is here.")
        if mount.cross_origin is not None:
            answered = mount.cross_origin.admit(request, _said(request, "origin"))
            if answered is not None:
                return answered
        if mount.foreign(request, authority):
            said, remedy = "Browsers' pages are not served here.", "The operator lists pages that may ask in origins."
            return refused(request, 403, Reason.NOT_ENTITLED, said, remedy=remedy)
        if _said(request, "content-encoding"):
            said, fields = "A body is taken as it is: without Content-Encoding.", ("Accept-Encoding", "identity")
            remedy = "Send the body as it is, and leave Content-Encoding out."
            return refused(request, 415, Reason.UNSUPPORTED_MEDIA_TYPE, said, fields, remedy=remedy)
        if _said(request, "expect") not in ("", "100-continue"):
            return refused(request, 417, Reason.INVALID_HEADER_FIELD, "Nothing but 100-continue can be expected.")
        return None

    def _naming(self, mount: Mount | None) -> str:
        """What an operator does so that a name is answered: behind a proxy, clients send the proxy's."""
        section = "the section" if mount is None or not mount.section else f"[{mount.section}]"
        return f"If clients reach this host by that name, the operator adds it to the key hosts of {section}."

    def _at(self, path: str) -> Mount | None:
        for mount in self._mounts:
            if mount.path.covers(path):
                return mount
        return None

    @staticmethod
    def too_large(request: BoundedRequest) -> bytes:
        """The refusal of a body that its surface does not take."""
        return refused(request, 413, Reason.BODY_TOO_LARGE, "The body is too large.")

    @staticmethod
    def too_much(request: BoundedRequest) -> bytes:
        """The refusal of a body while others fill what there is room for."""
        said = "Too much is being sent here; try again."
        return refused(request, 503, Reason.HANDLERS_BUSY, said, ("Retry-After", "5"))

    def _known(self, mount: Mount | None, authority: str, request: BoundedRequest) -> bool:
        """Whether something is served by that name; a connection says the same one again and again."""
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
        if name not in LOCAL:
            return False
        if not address:
            return port is None  # a socket of this machine's file system
        usual = 443 if request.isSecure() else 80  # type: ignore[no-untyped-call]
        local = address.startswith("127.") or address in ("::1", "localhost")
        return local and int(port or usual) == getattr(here, "port", 0)

    def render(self, request: BoundedRequest) -> Any:
        """What the surface of the path answers."""
        assert request.mount is not None, "it was not refused"
        answered = request.mount.resource.render(request)
        # What only the surface refuses is refused at the door as well: one request in, and nothing called.
        return NOT_DONE_YET if type(answered) is bytes and request.settled(request.complete) else answered


def shown(authority: str) -> str:
    """A name as a refusal shows it: bounded, and without what is not plain."""
    text = "".join(sign if sign in _PLAIN else "?" for sign in authority[:LONGEST_SHOWN])
    return repr(text)


def _lines(fields: Collection[tuple[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    """Fields as Twisted has them."""
    return tuple((spelled(name.encode("ascii")), value.encode("utf-8")) for name, value in fields)


def _said(request: BoundedRequest, name: str) -> str:
    """A field in lower case, without what stands around it; empty where it is absent."""
    return (field_of(request, name) or "").strip().lower()
