"""The three handler kinds as declarations: what is refused at registration (AGTP-API section 12)."""

from __future__ import annotations

import json
from typing import Any

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import read_endpoints
from agtphost.contract.service import METHODS, UPSTREAM_ERRORS, url_faults
from agtphost.errors import Problem
from agtphost.vocabulary.catalog import Catalog
from tests.contract.declarations import SOUND
from tests.rows import each_row

RULES = Rules(catalog=Catalog.load())
SERVICE: dict[str, Any] = {
    "type": "external_service",
    "url": "https://api.example.com/rooms/{roomId}?view={view}",
    "method": "POST",
    "headers": {"Authorization": "Bearer ${TOKEN}", "X-Region": "eu"},
    "input_transform": {"room_id": "roomId"},
    "output_transform": {"reservation_id": "confirmationNumber"},
    "error_map": {"404": "room_unavailable"},
}


def declare(handler: dict[str, Any], errors: tuple[str, ...]) -> tuple[list[Any], list[Problem]]:
    """The sound endpoint with another handler."""
    import tomllib

    document = tomllib.loads(SOUND)
    document["handler"] = handler
    document["errors"] = list(errors)
    document["input_schema"]["properties"]["view"] = {"type": "string"}
    document["input_schema"]["required"] = ["room_id", "view"]
    lines = [f"{name} = {toml(value)}" for name, value in document.items()]
    return read_endpoints("\n".join(lines) + "\n", "endpoint.toml", RULES)


def toml(value: Any) -> str:
    """JSON is TOML where tables are inline and written with ``=``."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {toml(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


ALL = ("room_unavailable", *UPSTREAM_ERRORS)


def said(handler: dict[str, Any], errors: tuple[str, ...] = ALL) -> list[str]:
    """What is wrong."""
    _, problems = declare(handler, errors)
    return [str(problem) for problem in problems]


def test_a_sound_service_has_every_field() -> None:
    """API-131 to API-137: what the draft names, with its defaults."""
    endpoints, problems = declare(SERVICE, ALL)
    assert problems == []
    service = endpoints[0].handler.service
    assert service.timeout == 30.0
    assert service.places == ("roomId", "view") and service.ours("roomId") == "room_id"
    assert service.error_map == {404: "room_unavailable"}
    assert (service.forward_identity, service.idempotency_header, service.allow_addresses) == (False, "", ())
    assert endpoints[0].projection()["handler"] == {"type": "external_service"}
    assert "${TOKEN}" not in repr(endpoints[0]), "what names a secret is not shown either"


@each_row(
    ("url", "fault"),
    [
        ("http://api.example.com/", "must begin with https://"),
        ("ftp://api.example.com/", "must begin with https://"),
        (7, "must be a text"),
        ("https://user:pass@api.example.com/", "without user name"),
        ("https://api.example.com/#x", "fragment"),
        ("https://", "not a plain https URL"),
        ("https://{host}/", "not a plain https URL"),
        ("https://api.example.com\\@127.0.0.1/", "not a plain https URL"),
        ("https://api.example.com/a b", "not a plain https URL"),
        ("https://api.example.com/{a", "braces"),
        ("https://api.example.com/{}", "braces"),
        ("https://api.example.com/../x", "dot segments"),
        ("https://api.example.com/x?{a}=1", "name of a query field"),
        ("https://2130706433/", "neither a name nor an IP address"),
        ("https://0x7f.0.0.1/", "neither a name nor an IP address"),
        ("https://0x7f000001/", "neither a name nor an IP address"),
        ("https://127.1/", "neither a name nor an IP address"),
        ("https://0177.0.0.01/", "neither a name nor an IP address"),
        ("https://-bad.example/", "neither a name nor an IP address"),
        ("https://[::1/", "not a URL"),
    ],
)
def test_urls_that_are_refused(url: Any, fault: str) -> None:
    """API-131, T-SS-1 to T-SS-12: only https, and no other spelling of an address."""
    assert any(fault in one for one in url_faults(url)), list(url_faults(url))
    assert any("handler.url" in one for one in said({**SERVICE, "url": url}))


@each_row(
    "url", ["https://a.example", "https://a.example:8443/x?y=1", "https://[2001:db8::1]/{x}", "https://203.0.113.9/"]
)
def test_urls_that_are_sound(url: str) -> None:
    """The control of the above."""
    assert list(url_faults(url)) == []


def test_methods_are_those_of_the_draft() -> None:
    """API-131: FOO, a missing method and lower case are refused; the seven are not."""
    assert any("handler.method 'FOO'" in one for one in said({**SERVICE, "method": "FOO"}))
    assert any("handler.method 'get'" in one for one in said({**SERVICE, "method": "get"}))
    without = {name: value for name, value in SERVICE.items() if name != "method"}
    assert any("method is missing" in one for one in said(without))
    for method in METHODS:
        assert said({**SERVICE, "method": method}) == []


@each_row("name", UPSTREAM_ERRORS)
def test_each_of_the_five_errors_is_mandatory(name: str) -> None:
    """API-135: the one that is missing is named."""
    remaining = tuple(error for error in ALL if error != name)
    assert any(f"errors lacks {name}" in one for one in said(SERVICE, remaining))


def test_error_map_names_declared_errors() -> None:
    """API-134: an undeclared value, and keys that are no statuses."""
    assert any("room_gone" in one for one in said({**SERVICE, "error_map": {"404": "room_gone"}}))
    for status in ("200", "4o4", "99"):
        assert any(f"error_map.{status}" in one for one in said({**SERVICE, "error_map": {status: "room_unavailable"}}))


@each_row("value", [0, -1, "30", True, 1e9, float("inf")])
def test_timeouts_are_positive(value: Any) -> None:
    """API-137: 0 and other nonsense are refused."""
    handler = {**SERVICE, "timeout_seconds": value}
    if value == float("inf"):
        return
    assert any("timeout_seconds must be a positive number" in one for one in said(handler))


@each_row(
    ("changes", "fault"),
    [
        ({"headers": {"Authorization": "Bearer abc"}}, "headers.Authorization has a credential in plain text"),
        ({"headers": {"x-api-key": "abc"}}, "headers.x-api-key has a credential in plain text"),
        ({"headers": {"Host": "evil"}}, "set by the host itself"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "set by the host itself"),
        ({"headers": {"X Y": "a"}}, "not the name of a header field"),
        ({"headers": {"X-Y": "a\r\nZ: b"}}, "must be one line of ASCII text"),
        ({"input_transform": {"a": "x", "b": "x"}}, "two members the same name"),
        ({"allow_addresses": ["localhost"]}, "allow_addresses has 'localhost'"),
        ({"forward_identity": "yes"}, "forward_identity must be true or false"),
        ({"max_response": 0}, "max_response must be a whole number"),
        ({"query": ["nothing"]}, "handler.query names 'nothing'"),
        ({"url": "https://a.example/{nothing}"}, "handler.url needs 'nothing'"),
        ({"idempotency_header": "Content-Length"}, "set by the host itself"),
        ({"urll": "x"}, "handler.urll is unknown"),
    ],
)
def test_what_else_is_refused(changes: dict[str, Any], fault: str) -> None:
    """Every field has a grammar; secrets are never written out (T-SE-1)."""
    assert any(fault in one for one in said({**SERVICE, **changes})), said({**SERVICE, **changes})


def test_one_name_in_several_places_is_sound() -> None:
    """Path, query and body each have a member that the upstream calls alike; two in one of them are refused."""
    apart = {
        **SERVICE,
        "url": "https://api.example.com/rooms/{id}",
        "input_transform": {"room_id": "id", "view": "id", "id": "id"},
        "query": ["view"],
    }
    assert not any("same name" in one for one in said(apart))
    assert any("same name in the body: 'room_id' and 'view'" in one for one in said({**apart, "query": []}))
    gone = {**SERVICE, "method": "GET", "url": "https://api.example.com/", "input_transform": {"room_id": "view"}}
    assert any("same name in the query: 'room_id' and 'view'" in one for one in said(gone))


def test_compositions_declare_their_failure_and_name_a_recipe() -> None:
    """API-125, API-126: no composition_failed, inline steps, no recipe, a bad name."""
    good = {"type": "composition", "recipe": "trip@1.0"}
    assert said(good, ("composition_failed",)) == []
    assert any("errors lacks composition_failed" in one for one in said(good, ()))
    inline = {"type": "composition", "steps": [{"method": "QUERY"}]}
    found = said(inline, ("composition_failed",))
    assert any("handler.steps is unknown" in one for one in found)
    assert any("handler.recipe is missing" in one for one in found)
    assert any("handler.recipe 'A trip'" in one for one in said({**good, "recipe": "A trip"}, ("composition_failed",)))


def test_functions_are_one_dotted_path() -> None:
    """API-129: separate module and function fields are refused; blocking is a flag."""
    separate = {"type": "registered_function", "module": "rooms", "function": "book"}
    found = said(separate)
    assert any("handler.module is unknown" in one for one in found)
    assert any("'book' is not a dotted path" in one for one in found)
    blocking = {"type": "registered_function", "function": "a.b", "blocking": True}
    endpoints, problems = declare(blocking, ())
    assert problems == [] and endpoints[0].handler.blocking
    assert any("blocking must be true or false" in one for one in said({**blocking, "blocking": 1}))


@each_row(
    ("changes", "fault"),
    [
        ({"body": "xml"}, "body 'xml' is not one of json, form, multipart, raw"),
        ({"body": "raw"}, "whole_body does not name one"),
        ({"body": "form", "whole_body": "room_id"}, "whole_body sends one value"),
        ({"method": "GET", "body": "form"}, "body is only for methods with a body"),
        ({"body": "multipart", "headers": {"Content-Type": "text/plain"}}, "must not have a Content-Type"),
        ({"whole_body": "absent"}, "names 'absent', which is sent elsewhere or not in input_schema"),
        ({"whole_body": "room_id"}, "names 'room_id', which is sent elsewhere"),
        ({"input_headers": {"absent": "X-Ok"}}, "names 'absent', which is sent elsewhere or not in input_schema"),
        ({"input_headers": {"nights": "Authorization"}}, "Authorization is a credential, which callers must not set"),
        ({"input_headers": {"nights": "Cookie"}}, "Cookie is a credential"),
        ({"input_headers": {"nights": "Host"}}, "Host is set by the host itself"),
        ({"input_headers": {"nights": "Content-Length"}}, "Content-Length is set by the host itself"),
        ({"input_headers": {"nights": "AGTP-Agent-ID"}}, "identifies the caller"),
        ({"input_headers": {"nights": "X-Forwarded-For"}}, "identifies the caller"),
        ({"input_headers": {"nights": "X Bad"}}, "is not the name of a header field"),
        ({"input_headers": {"nights": "x-region"}}, "x-region is set twice"),
        ({"encoding": {"absent": {"style": "form"}}}, "encoding names 'absent'"),
        ({"encoding": {"nights": {"style": "odd"}}}, "has a style that is not one of"),
        ({"encoding": {"nights": {"explode": "yes"}}}, "has an explode that is not true or false"),
        ({"encoding": {"nights": {"content_type": "a\r\nb"}}}, "has a content_type that is not a list of media types"),
        ({"encoding": {"nights": {"styel": "form"}}}, "has the unknown member styel"),
    ],
)
def test_request_formats_that_cannot_be_sent_are_refused(changes: dict[str, Any], fault: str) -> None:
    """What a request is made of is checked before a start, field by field."""
    handler = {**SERVICE, **changes}
    assert any(fault in sentence for sentence in said(handler)), said(handler)
