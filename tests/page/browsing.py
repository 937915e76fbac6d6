"""A host with a page, and a browser without scripts: what it is shown, and the forms that it can send."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import provision_development
from tests.system.hosting import Host, free_port, running, sample

SECTION = """
[admin]
listen = "ssl:{port}:interface=127.0.0.1"
{more}
"""


@dataclass
class Form:
    """One form, as it stands on a page."""

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)


class Page(HTMLParser):
    """What a page has: forms, links, texts, ids, and data attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.labelled: list[str] = []
        self.inputs: list[str] = []
        self.data: list[tuple[str, str]] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.said: list[str] = []
        self._form: Form | None = None
        self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        self.data += [(name, value) for name, value in given.items() if name.startswith("data-")]
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "label":
            self.labelled.append(given.get("for", ""))
        elif tag == "form":
            self._form = Form(given.get("method", "get").upper(), given.get("action", ""))
            self.forms.append(self._form)
        elif self._form is not None:
            self._within(tag, given)

    def _within(self, tag: str, given: dict[str, str]) -> None:
        assert self._form is not None
        if tag in ("input", "textarea") and given.get("name"):
            if given.get("type") != "checkbox" or "checked" in given:
                self._form.fields[given["name"]] = given.get("value", "")
            if given.get("type") != "hidden":
                self.inputs.append(given.get("id", ""))
        elif tag == "select":
            self._select = given.get("name", "")
            self.inputs.append(given.get("id", ""))
        elif tag == "option" and self._select:
            if "selected" in given or self._select not in self._form.fields:
                self._form.fields[self._select] = given.get("value", "")
        elif tag == "button" and given.get("name"):
            self._form.buttons.append((given["name"], given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.said.append(data.strip())

    def form(self, action: str, **fields: str) -> Form:
        """The first form that is sent there, and has these fields."""
        for each in self.forms:
            if each.action == action and all(each.fields.get(name) == value for name, value in fields.items()):
                return each
        raise AssertionError(f"no form for {action} with {fields} among {[each.action for each in self.forms]}")


@dataclass
class Answer:
    """One answer of HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def page(self) -> Page:
        return Page(self.body.decode())

    @property
    def text(self) -> str:
        return self.body.decode()


class Browser:
    """Keeps the cookie, sends forms, follows redirects when asked to."""

    def __init__(self, port: int, trust: Path, name: str = "127.0.0.1", certificate: Path | None = None) -> None:
        self.port, self.name, self.trust = port, name, trust
        self.cookie = ""
        self._context = ssl.create_default_context(cafile=str(trust))
        if certificate is not None:
            self._context.load_cert_chain(certificate)

    def ask(
        self, method: str, path: str, fields: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own."""
        sent = dict(headers or {})
        body = None
        if fields is not None:
            body = urlencode(fields).encode()
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        if self.cookie:
            sent.setdefault("Cookie", self.cookie)
        connection = http.client.HTTPSConnection(self.name, self.port, timeout=30, context=self._context)
        try:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            given_back = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, given_back, response.read())
        finally:
            connection.close()
        given = answer.headers.get("set-cookie")
        if given is not None:
            self.cookie = given.partition(";")[0] if "Max-Age=0" not in given else ""
        return answer

    def get(self, path: str) -> Answer:
        """A view."""
        return self.ask("GET", path)

    def send(self, form: Form, button: tuple[str, str] | None = None, **fields: str) -> Answer:
        """A form with a button of it, and the page that it leads to."""
        given = {**form.fields, **fields, **(dict([button]) if button is not None else {})}
        answer = self.ask("POST", form.action, given)
        return self.get(answer.headers["location"]) if answer.status == 303 else answer

    def enter(self, url: str) -> Answer:
        """By a link, as somebody without scripts: the token is pasted into the form."""
        page = self.get(urlsplit(url).path).page
        return self.send(page.form("/enter"), token=urlsplit(url).fragment)


@dataclass
class Site:
    """A running host with a page."""

    host: Host
    port: int

    @property
    def trust(self) -> Path:
        return self.host.state / "ca.pem"

    @property
    def certificate(self) -> Path:
        """What the page shows to browsers."""
        return self.host.state / "server.pem"

    def link(self, *words: str) -> str:
        """A link, by the command."""
        url = self.host.agtp_json("page", *words)["url"]
        assert isinstance(url, str)
        return url

    def stranger(self, certificate: Path | None = None) -> Browser:
        """
        A browser that has not entered.

        :param certificate: which it shows, and its key.
        """
        return Browser(self.port, self.trust, certificate=certificate)

    def browser(self, *words: str) -> Browser:
        """A browser that has entered."""
        browser = self.stranger()
        answer = browser.enter(self.link(*words))
        assert answer.status == 200, answer.text
        return browser


@contextmanager
def served(
    directory: Path,
    more: str = "",
    append: str = "",
    *,
    operators: Sequence[str] = ("registrar",),
    prepare: Callable[[Path], None] = lambda config: None,
    **options: Any,
) -> Iterator[Site]:
    """
    A host with a page.

    :param more: further keys of ``[admin]``; ``{demo}`` stands for the fingerprint of the sample agent's key.
    :param append: further sections.
    :param prepare: does what else the deployment needs, before its host starts.
    :param operators: whose keys are operators': paths below the state directory, without ``.key``.
    """
    port = free_port()
    config = sample(directory, **options)
    state, described = config.parent / "state", config.parent / "agents" / "librarian.agent.json"
    provision_development(state, server_id="localhost", hosted=[described])
    more = more.replace("{demo}", _fingerprint(state / "agents/demo/agent.key"))
    section = SECTION.format(port=port, more=more)
    keys = [_fingerprint(state / f"{name}.key") for name in operators]
    config.write_text(f"{config.read_text()}{section}{append}\n[audit]\noperators = {json.dumps(keys)}\n")
    prepare(config)
    with running(config) as host:
        yield Site(host, port)


def _fingerprint(key: Path) -> str:
    return SigningKey.load(key).public.fingerprint
