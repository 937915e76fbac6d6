"""Serve the page over HTTP: admission, routing and form submissions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from agtphost.http.bounded_request import BoundedRequest, field_of, tail_of
from agtphost.http.status import FIELD, over_http
from agtphost.iagtp import IDispatcher
from agtphost.page import completions, evidence, inbox, note_pages, record_export
from agtphost.page.actions import ACTIONS
from agtphost.page.browser_certificates import NONE_LISTED, BrowserCertificate, BrowserCertificates
from agtphost.page.call_filters import ALL
from agtphost.page.call_list import LIVE_PATH
from agtphost.page.certificate_entry import enter_by_certificate
from agtphost.page.entrance import Entrance, EntryRefused, PageSession, is_forged
from agtphost.page.fields import cookie_of, set_cookie
from agtphost.page.form_fields import MalformedForm
from agtphost.page.form_requests import perform
from agtphost.page.layout import NAVIGATION, PageView, page
from agtphost.page.live_feed import LiveFeeds
from agtphost.page.page_visit import PageVisit, is_only_addressed
from agtphost.page.person_client import PageReply, PersonClient
from agtphost.page.views import find_view
from agtphost.vocabulary import jsontext

log = Logger()

HTML = "text/html; charset=utf-8"
FORM = "application/x-www-form-urlencoded"

LONGEST_FORM = 64 << 10
"""Octets of a form."""

LONGEST_ENTRY = 16 << 10
"""Octets of the form that anonymous clients send: a percent-encoded link of 4,096 characters, and a little more."""

MOST_FIELDS = 64
"""Members of a form or a query."""

MEDIA_TYPES: Mapping[str, str] = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types of the files in ``static``, by their suffix."""

EXPORT_PATH = "/evidence/export"
"""The path of exports."""

ADDRESSED_PATHS = ("/", "/inbox")
"""The paths at which people of ``[notify]`` see what is addressed to them."""

REFRESHES = "refresh"
REFRESH = f"{REFRESHES}=1".encode()
"""The member of a query of a view that asks for itself again, without a click."""


STATIC = "/static/"

NO_SESSION = ("Page-Session", "none")
"""The field by which an open view hears that its session has ended; ``static/connection.js`` looks for it."""


@dataclass(frozen=True, slots=True)
class _AdmittedPageRequest:
    """The result of reading a request's head."""

    session: PageSession | None
    cookie: str
    shown: BrowserCertificate | None = None
    """The certificate that the browser has presented."""


class PageResource(Resource):
    """
    The HTTP resource for browsers whose requests come from this host's own pages, see
    :class:`agtphost.http.mounts.Mount`.

    :param keys: those with which evidence is verified.
    :param feeds: the open feeds, which a ledger watcher fills.
    :param exports: files of records that are being written.
    :param browsers: certificates with which browsers may enter.
    :param operator_names: returns the names of the operators that the configuration lists.
    """

    isLeaf = True

    longest_body = LONGEST_FORM

    def __init__(
        self,
        entrance: Entrance,
        dispatcher: IDispatcher,
        keys: evidence.EvidenceKeys,
        feeds: LiveFeeds,
        exports: record_export.Exports,
        browsers: BrowserCertificates = NONE_LISTED,
        operator_names: Callable[[], Collection[str]] = tuple,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._entrance = entrance
        self._browsers = browsers
        self._operator_names = operator_names
        self._dispatcher = dispatcher
        self._keys = keys
        self._feeds = feeds
        self._exports = exports
        self._static = _static()

    # Admission

    def admit(self, request: BoundedRequest) -> bytes | None:
        """
        Admit a request by its head; see :class:`agtphost.http.bounded_request.Gatekeeper`.

        A refused client sends no body.
        """
        path = request.path.decode("ascii", "replace")
        sent = request.method == b"POST"
        posted = path in ("/enter", "/leave") or path.startswith("/do/")
        if not sent and request.method not in (b"GET", b"HEAD"):
            return tail_of(request, 405, b"Send a GET or a POST.\n", ("Allow", "GET, HEAD, POST"))
        if sent and not posted:
            return tail_of(request, 405, b"Send a GET.\n", ("Allow", "GET, HEAD"))
        if sent and (field_of(request, "content-type") or "").partition(";")[0].strip().lower() != FORM:
            return tail_of(request, 415, b"Send a form.\n")
        if sent and path == "/enter" and not _is_short(request):
            return tail_of(request, 413, b"A link is shorter.\n")
        cookie, shown = cookie_of(request), self._browsers.find_certificate(request.channel.transport)
        # An open view asks without a viewer: its feed reconnects, it refreshes itself, and it looks for the host.
        own = path == LIVE_PATH or path.startswith(STATIC) or REFRESH in request.uri.partition(b"?")[2].split(b"&")
        session = self._entrance.find_session(cookie, "" if shown is None else shown.person, used=not own)
        if session is not None:
            request.channel.note_proven()
        if sent and session is None and path != "/enter":
            return tail_of(request, 401, b"The session has ended. Run agtp page, and open its link.\n")
        request.admission = _AdmittedPageRequest(session, cookie, shown)
        return None

    def render(self, request: BoundedRequest) -> bytes | int:
        """Answer a request."""
        if request.admission is None:
            refusal = self.admit(request)
            if refusal is not None:
                return refusal
        path = request.path.decode("ascii", "replace")
        name = path.removeprefix(STATIC)
        if path.startswith(STATIC) and name in self._static:
            octets, kind = self._static[name]
            ended = () if request.admission.session is not None else (NO_SESSION,)
            return tail_of(request, 200, octets, *ended, kind=kind, cache="no-cache")
        working = Deferred.fromCoroutine(self._answer(request, path))
        working.addErrback(lambda failure: _answer_failure(request, failure))
        return NOT_DONE_YET

    async def _answer(self, request: BoundedRequest, path: str) -> None:
        admitted: _AdmittedPageRequest = request.admission
        session = admitted.session
        if request.method == b"POST":
            await self._submit(request, path, admitted)
        elif path == "/enter":
            await self._show(request, note_pages.enter_page(certified=admitted.shown), path, None)
        elif path in evidence.PATHS or path == completions.PATH:
            await self._evidence(request, path, session)
        elif path == LIVE_PATH:
            await self._live(request, session)
        elif path == EXPORT_PATH and session is not None:
            await self._export(request, session)
        elif session is None:
            view = note_pages.enter_page("You have no session, or it has ended.", 401, admitted.shown)
            await self._show(request, view, path, None)
        else:
            await self._view(request, path, session)

    # Looking

    async def _view(self, request: BoundedRequest, path: str, session: PageSession) -> None:
        known = find_view(path)
        query = _pairs(request.uri.partition(b"?")[2], once=True)
        if known is None or query is None:
            said = f"The address has more than {MOST_FIELDS} members, one of them twice, or one that is not text."
            view = note_pages.missing_page() if known is None else note_pages.malformed_page(said)
            await self._show(request, view, path, session)
            return
        draw, rest = known
        asker = PersonClient(self._dispatcher, session, _address(request))
        visit = PageVisit(path=path, rest=unquote(rest), query=query, session=session, ask=asker, read={REFRESHES})
        visit.operators = self._operator_names()
        person = await asker.ask("QUERY", "/page")
        if not person.ok:
            await self._end_session(request, path, session, person)
            return
        visit.person = person.result
        if visit.sees_only_addressed:
            draw = inbox.draw if path in ADDRESSED_PATHS else note_pages.draw_forbidden
        view = await draw(visit)
        await self._show(request, note_pages.add_unread_note(view, visit), path, session, person)

    async def _evidence(self, request: BoundedRequest, path: str, session: PageSession | None) -> None:
        """Answer a script with JSON, even for a refusal."""
        if session is None:
            _finish_json(request, 401, {"explanation": "The session has ended. Run agtp page, and open its link."})
            return
        asker = PersonClient(self._dispatcher, session, _address(request))
        person = await asker.ask("QUERY", "/page")
        if not person.ok:
            _finish_json(request, person.status, {"reason": person.reason, "explanation": person.explanation})
            return
        query = _pairs(request.uri.partition(b"?")[2]) or {}
        if path == completions.PATH:
            _finish_json(request, *await completions.answer(asker))
        else:
            _finish_json(request, *await evidence.answer(path, query, asker, self._keys))

    async def _export(self, request: BoundedRequest, session: PageSession) -> None:
        """Write a file while its records are read; a refusal before its first line is a view."""
        asker = PersonClient(self._dispatcher, session, _address(request))
        person = await asker.ask("QUERY", "/page")
        if not person.ok:
            await self._end_session(request, EXPORT_PATH, session, person)
            return
        query = _pairs(request.uri.partition(b"?")[2]) or {}
        given = {name: query.get(name, "").strip() for name in ("from", "to")}
        numbers = {name: evidence.count(word) for name, word in given.items()}
        view: PageView | None = None
        if not query.get("chain") or any(word and numbers[name] is None for name, word in given.items()):
            view = note_pages.malformed_page("Name a chain, and the numbers of its first and last record or none.")
        elif self._exports.is_full:
            view = note_pages.malformed_page("The host is writing as many files as it may; wait until one is finished.")
        else:
            try:
                wanted = await record_export.find_range(asker, query["chain"], numbers["from"], numbers["to"])
                others = record_export.pages(asker, wanted)
                first = await anext(others) if wanted.first <= wanted.last else ()
            except evidence.EvidenceRefused as refused:
                view = note_pages.refused_page(refused.reply)
            else:
                if not first:
                    view = note_pages.malformed_page(
                        f"The chain has no record from {wanted.first} to {numbers['to'] or 'its end'}."
                    )
        if view is not None:
            await self._show(request, view, EXPORT_PATH, session, person)
            return
        tail_of(
            request, 200, b"", ("Content-Disposition", f'attachment; filename="{wanted.name}"'), kind=record_export.KIND
        )
        request.responseHeaders.removeHeader("Content-Length")
        if request.method == b"HEAD":
            request.finish()  # type: ignore[no-untyped-call]
            return
        try:
            await self._exports.write(wanted, first, others, record_export.PacedWriter(request))
        except record_export.IncompleteExport as broken:
            log.warn("an export of {chain} breaks off: {why}", chain=wanted.chain, why=str(broken))

    async def _live(self, request: BoundedRequest, session: PageSession | None) -> None:
        """Open a feed; its opening and its end are on record."""
        asker = None if session is None else PersonClient(self._dispatcher, session, _address(request))
        if session is None or asker is None or request.method == b"HEAD":
            _finish_json(request, 401, {"explanation": "The session has ended. Run agtp page, and open its link."})
            return
        if self._feeds.is_full:
            request.responseHeaders.setRawHeaders("Retry-After", ["30"])
            _finish_json(request, 503, {"explanation": "The host has as many live feeds as it may; try again later."})
            return
        endings = self._feeds.endings
        opened = await asker.ask("QUERY", "/page/feed", {"moment": "opened"})
        if not opened.ok:
            _finish_json(request, opened.status, {"reason": opened.reason, "explanation": opened.explanation})
            return
        closing = asker.ask("QUERY", "/page/feed", {"moment": "closed"})
        if _is_gone(request):
            await closing
            return
        query = _pairs(request.uri.partition(b"?")[2]) or {}
        reads = query.get("reads") == ALL
        feed = self._feeds.open(
            request,
            lambda: Deferred.fromCoroutine(closing),
            reads=reads,
            session=session,
            after=field_of(request, "last-event-id") or "",
        )
        if endings != self._feeds.endings:
            feed.end()  # Its person was judged before a reload.

    async def _end_session(self, request: BoundedRequest, path: str, session: PageSession, reply: PageReply) -> None:
        """Answer for a person whom the host does not accept any more, or while it cannot answer."""
        if reply.status in (401, 403, 410):
            self._entrance.end_session(session)
            view = note_pages.ended_page(reply, request.admission.shown)
            request.responseHeaders.addRawHeader(*set_cookie(""))
            await self._show(request, view, path, None)
        else:
            await self._show(request, note_pages.refused_page(reply), path, session)

    async def _show(
        self,
        request: BoundedRequest,
        view: PageView,
        path: str,
        session: PageSession | None,
        person: PageReply | None = None,
    ) -> None:
        named = "" if person is None else _name_of(person.result)
        views: Sequence[tuple[str, str]] = NAVIGATION
        if person is not None and is_only_addressed(person.result):
            views = tuple(each for each in NAVIGATION if each[0] == "/inbox")
        _finish(request, view.status, page(view, path, session, named, views))

    # Doing

    async def _submit(self, request: BoundedRequest, path: str, admitted: _AdmittedPageRequest) -> None:
        assert request.content is not None, "a request that was answered before has none"
        fields = _pairs(request.content.read())
        if fields is None:
            await self._show(
                request, note_pages.malformed_page("The form has too many fields."), path, admitted.session
            )
        elif path == "/enter":
            await self._enter(request, fields, admitted)
        elif admitted.session is None or is_forged(admitted.session, fields.get("csrf", "")):
            log.warn(
                "a form sent to {path} from {address} lacks the token of its session",
                path=path,
                address=_address(request),
            )
            await self._show(request, note_pages.forged_page(), path, admitted.session)
        elif path == "/leave":
            self._entrance.end_by_cookie(admitted.cookie)
            _redirect(request, "/enter", set_cookie(""))
        else:
            await self._act(request, path, fields, admitted.session)

    async def _enter(self, request: BoundedRequest, fields: Mapping[str, str], admitted: _AdmittedPageRequest) -> None:
        address, shown = _address(request), admitted.shown
        try:
            if note_pages.CERTIFICATE in fields:
                cookie, _ = await enter_by_certificate(self._entrance, self._dispatcher, shown, address)
            else:
                cookie, _ = self._entrance.enter(fields.get("token", "")[:4_096], address)
        except EntryRefused as error:
            if error.status == 429:
                # Short, because no page is drawn for a client that guesses.
                tail = tail_of(request, 429, f"{error}\n".encode(), ("Retry-After", "60"))
                request.write(tail)  # type: ignore[no-untyped-call]
                request.finish()  # type: ignore[no-untyped-call]
                return
            await self._show(request, note_pages.enter_page(str(error), error.status, shown), "/enter", None)
            return
        if admitted.session is not None:
            # The browser forgets its cookie now, so that the person who entered before could not end it any more.
            self._entrance.end_session(admitted.session)
        _redirect(request, "/", set_cookie(cookie))

    async def _act(self, request: BoundedRequest, path: str, fields: Mapping[str, str], session: PageSession) -> None:
        make = ACTIONS.get(path.removeprefix("/do/"))
        if make is None:
            await self._show(request, note_pages.missing_page(), path, session)
            return
        try:
            act = make(fields)
        except MalformedForm as error:
            await self._show(request, note_pages.malformed_page(str(error)), path, session)
            return
        asker = PersonClient(self._dispatcher, session, _address(request))
        person = await asker.ask("QUERY", "/page")
        if not person.ok:
            await self._end_session(request, path, session, person)
            return
        if person.result.get("writes") is not True:
            await self._show(request, note_pages.read_only_page(), path, session, person)
            return
        result = await perform(act, asker, fields)
        if isinstance(result, PageView):
            await self._show(request, result, path, session, person)
            return
        session.message = result
        _redirect(request, _local(fields.get("back", "/")))


def _static() -> dict[str, tuple[bytes, str]]:
    """Return octets and media type of the files that the page refers to, by name; read once."""
    folder = resources.files("agtphost.page").joinpath("static")
    found = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        kind = MEDIA_TYPES.get(f".{entry.name.rpartition('.')[2]}")
        if kind is not None:
            found[entry.name] = entry.read_bytes(), kind
    return found


def _address(request: BoundedRequest) -> str:
    return str(request.channel.address)


def _is_short(request: BoundedRequest) -> bool:
    """Return whether the head announces a form no longer than one with a link can be."""
    length = field_of(request, "content-length") or ""
    return length.isdigit() and int(length[:9]) <= LONGEST_ENTRY


def _pairs(octets: bytes, *, once: bool = False) -> dict[str, str] | None:
    """
    Return the members of a form or a query; None if they are too many, or not text.

    :param once: return None for two values of one name too: a view that takes one of them would hide the other.
    """
    try:
        pairs = parse_qsl(octets.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        return None
    found = dict(pairs)
    return None if once and len(found) < len(pairs) else found


def _local(path: str) -> str:
    """Return a path of this page to return to; never another site."""
    if not path.startswith("/") or path.startswith("//") or "\\" in path:
        return "/"
    return quote(path, safe="/?=&%#-_.~")


def _redirect(request: BoundedRequest, path: str, *fields: tuple[str, str]) -> None:
    tail = tail_of(request, 303, b"", ("Location", path), *fields, kind=HTML)
    request.write(tail)  # type: ignore[no-untyped-call]
    request.finish()  # type: ignore[no-untyped-call]


def _is_gone(request: BoundedRequest) -> bool:
    """Return whether the client has disconnected or has its answer."""
    return bool(request.finished or request._disconnected)


def _finish_json(request: BoundedRequest, status: int, document: Mapping[str, Any]) -> None:
    _finish(request, status, jsontext.encode(document), "application/json")


def _finish(request: BoundedRequest, status: int, octets: bytes, kind: str = HTML) -> None:
    if _is_gone(request):
        return
    # Statuses that HTTP would misread are translated.
    fields = ((FIELD, str(status)),) if status != over_http(status) else ()
    request.write(tail_of(request, over_http(status), octets, *fields, kind=kind))  # type: ignore[no-untyped-call]
    request.finish()  # type: ignore[no-untyped-call]


def _answer_failure(request: BoundedRequest, failure: Any) -> None:
    log.failure("a view of the page could not be drawn", failure)
    if not _is_gone(request):
        request.write(tail_of(request, 500, b"This view could not be drawn; the host's log says why.\n"))  # type: ignore[no-untyped-call]
        request.finish()  # type: ignore[no-untyped-call]


def _name_of(person: Mapping[str, Any]) -> str:
    """
    Return what the frame calls who entered: the operator's name and role, the agent's name, the name in
    ``[notify.people]``, or the key's digits.
    """
    if person.get("operator"):
        return f"{person['operator']} ({person.get('role')})"
    return str(person.get("agent") or person.get("person") or str(person.get("key", ""))[:16])
