"""Requests of external services as forms, multipart bodies, raw octets and header fields, read by foreign parsers."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import ensureDeferred
from werkzeug.formparser import parse_form_data

from agtphost.contract.request_format import MemberEncoding
from agtphost.errors import Refusal
from agtphost.handlers.http_bodies import form_pairs
from tests.handlers.test_external import Yard, context
from tests.handlers.upstreams import Heard, answer, says

PNG = b"\x89PNG\r\n\x1a\n--boundary\r\n\x00\xff"
DEEP = MemberEncoding(style="deepObject")
FILE = MemberEncoding(file=True, content_types=("image/png", "image/*"))


@pytest.fixture
def yard(request: pytest.FixtureRequest) -> Yard:
    found = Yard()
    request.addfinalizer(lambda: pytest_twisted.blockon(ensureDeferred(found.close())))
    return found


async def send(yard: Yard, given: dict[str, Any], path: str = "/", method: str = "POST", **changes: Any) -> Heard:
    """Return what the upstream got."""
    server = yard.server(says(answer(200, {})))
    await yard.handler(server, path, method, **changes).handle(context(given))
    (heard,) = server.heard
    return heard


async def refusal(yard: Yard, given: dict[str, Any], **changes: Any) -> str:
    """Return why an input is refused; nothing may have reached the upstream."""
    server = yard.server(says(answer(200, {})))
    with pytest.raises(Refusal) as caught:
        await yard.handler(server, **changes).handle(context(given))
    assert caught.value.status == 422 and not server.heard
    return str(caught.value.explanation)


def parse(heard: Heard) -> tuple[list[tuple[str, str]], dict[str, list[Any]]]:
    """Return the fields and files that Werkzeug reads in a body."""
    environ = {
        "wsgi.input": BytesIO(heard.body),
        "CONTENT_LENGTH": str(len(heard.body)),
        "CONTENT_TYPE": heard.headers["content-type"],
        "REQUEST_METHOD": "POST",
    }
    _, form, files = parse_form_data(environ, silent=False)
    return [*form.items(multi=True)], {name: files.getlist(name) for name in files}


# Forms


@pytest_twisted.ensureDeferred
async def test_form_writes_nested_values_as_deep_objects(yard: Yard) -> None:
    """Lists and objects that are declared deepObject become bracketed fields, as Stripe takes them."""
    given = {
        "amount": 2000,
        "capture": True,
        "metadata": {"order": "6735", "note": "a&b=c"},
        "items": [{"price": "p1", "quantity": 2}, {"price": "p2"}],
        "empty": None,
    }
    heard = await send(yard, given, body="form", encoding={"metadata": DEEP, "items": DEEP})
    assert heard.headers["content-type"] == "application/x-www-form-urlencoded"
    assert parse(heard)[0] == [
        ("amount", "2000"),
        ("capture", "true"),
        ("metadata[order]", "6735"),
        ("metadata[note]", "a&b=c"),
        ("items[0][price]", "p1"),
        ("items[0][quantity]", "2"),
        ("items[1][price]", "p2"),
    ]


@pytest.mark.parametrize(
    ("value", "encoding", "pairs"),
    [
        ([1, "b"], MemberEncoding(), [("n", "1"), ("n", "b")]),
        ([1, "b"], MemberEncoding(style="form"), [("n", "1"), ("n", "b")]),
        ([1, "b"], MemberEncoding(style="form", explode=False), [("n", "1,b")]),
        ([1, "b"], MemberEncoding(style="spaceDelimited", explode=False), [("n", "1 b")]),
        ([1, "b"], MemberEncoding(style="pipeDelimited", explode=False), [("n", "1|b")]),
        ({"R": 1, "G": 2}, MemberEncoding(style="form"), [("R", "1"), ("G", "2")]),
        ({"R": 1, "G": 2}, MemberEncoding(style="form", explode=False), [("n", "R,1,G,2")]),
        ({"R": 1, "G": {"x": [3]}}, DEEP, [("n[R]", "1"), ("n[G][x][0]", "3")]),
        ({"R": 1}, MemberEncoding(), [("n", '{"R":1}')]),
        ([1], MemberEncoding(content_types=("application/json",)), [("n", "[1]")]),
        ([], MemberEncoding(style="form", explode=False), []),
        (None, DEEP, []),
    ],
)
def test_form_pairs_follow_style_and_explode(value: Any, encoding: MemberEncoding, pairs: list[Any]) -> None:
    """The table of styles in OpenAPI 3.1 section 4.8.12, and its default for forms."""
    assert list(form_pairs("n", value, encoding)) == pairs


@pytest_twisted.ensureDeferred
async def test_query_writes_declared_styles(yard: Yard) -> None:
    """Members of the query follow their encoding, with and without a body."""
    given = {"created": {"gte": 5}, "ids": ["a", "b"]}
    styles = {"created": DEEP, "ids": MemberEncoding(style="form", explode=False)}
    heard = await send(yard, given, "/list?v=1", "GET", encoding=styles)
    assert heard.line == "GET /list?v=1&created%5Bgte%5D=5&ids=a%2Cb HTTP/1.1"


@pytest_twisted.ensureDeferred
async def test_exploded_object_cannot_add_to_another_field(yard: Yard) -> None:
    """A caller's member name never becomes a second value of the operator's field, or of another input's."""
    loose = {"filter": MemberEncoding(style="form")}
    why = await refusal(yard, {"filter": {"key": "mine"}}, path="/list?key=k1", method="GET", encoding=loose)
    assert "'key'" in why
    why = await refusal(yard, {"filter": {"amount": 1}, "amount": 5}, body="form", encoding=loose)
    assert "'amount'" in why


# Multipart


@pytest_twisted.ensureDeferred
async def test_multipart_sends_files_with_names_and_types(yard: Yard) -> None:
    """Octets in base64 become parts that another parser reads back unchanged, beside fields and JSON parts."""
    data = base64.b64encode(PNG).decode()
    given = {
        "purpose": "identity",
        "link": {"create": True},
        "tags": ["a", "b"],
        "file": {"data": data, "filename": 'per"son.png', "content_type": "image/webp"},
        "pages": [data, {"data": "", "filename": "naïve 👩\u200d🔬.txt"}],
    }
    heard = await send(
        yard, given, body="multipart", input_transform={"file": "upload"},
        encoding={"file": FILE, "pages": MemberEncoding(file=True)},
    )  # fmt: skip
    fields, files = parse(heard)
    assert fields == [("purpose", "identity"), ("link", '{"create":true}'), ("tags", "a"), ("tags", "b")]
    (upload,), (first, second) = files["upload"], files["pages"]
    assert upload.stream.read() == PNG
    assert (upload.filename, upload.content_type) == ('per"son.png', "image/webp")
    assert (first.stream.read(), first.filename, first.content_type) == (PNG, "pages", "application/octet-stream")
    assert (second.stream.read(), second.filename) == (b"", "naïve 👩\u200d🔬.txt")


@pytest_twisted.ensureDeferred
async def test_multipart_boundary_differs_in_each_request(yard: Yard) -> None:
    """A caller cannot know the boundary, so it cannot end a part."""
    kinds = {(await send(yard, {"a": "b"}, body="multipart")).headers["content-type"] for _ in range(4)}
    assert len(kinds) == 4


@pytest_twisted.ensureDeferred
async def test_multipart_names_cannot_begin_lines(yard: Yard) -> None:
    """CR, LF and quotes of a name stay in the name, also where a caller chooses it."""
    hostile = 'x"\r\nContent-Type: text/html\r\n\r\n<b>'
    heard = await send(yard, {"meta": {hostile: "v"}}, body="multipart", encoding={"meta": DEEP})
    shown = hostile.replace("\r\n", "%0D%0A")
    assert parse(heard) == ([(f"meta[{shown}]", "v")], {})
    assert b"\r\nContent-Type" not in heard.body


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no base64!", "not base64"),
        ({"data": 5}, "no data in base64"),
        ({"data": "", "filename": "a\r\nb"}, "filename"),
        ({"data": "", "content_type": "image/png\r\nX: y"}, "not a media type"),
        ({"data": "", "content_type": "text/html"}, "not one of image/png, image/*"),
    ],
)
async def test_multipart_refuses_files_that_are_none(yard: Yard, value: Any, why: str) -> None:
    """Each refusal is 422, says which member it is about, and sends nothing."""
    assert why in await refusal(yard, {"file": value}, body="multipart", encoding={"file": FILE})


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(
    ("style", "value"),
    [("spaceDelimited", ["a b", "c"]), ("pipeDelimited", ["a|b"]), ("form", ["a,b"]), ("form", {"a": "1,b,2"})],
)
async def test_items_that_the_service_would_read_as_more_are_refused(yard: Yard, style: str, value: Any) -> None:
    """A list that its schema bounds would arrive with more items, and an object with more members."""
    style_of = MemberEncoding(style=style, explode=False)
    assert "has one in it" in await refusal(yard, {"n": value}, body="form", encoding={"n": style_of})


# Whole bodies


@pytest_twisted.ensureDeferred
async def test_whole_body_is_sent_as_it_is(yard: Yard) -> None:
    """A JSON body that is a list, and octets with the Content-Type that was declared or given."""
    patch = [{"op": "remove", "path": "/a"}]
    kind = {"content-type": "application/json-patch+json"}
    heard = await send(yard, {"body": patch}, method="PATCH", whole_body="body", secrets=kind)
    assert heard.json() == patch and heard.headers["content-type"] == "application/json-patch+json"
    octets = {"body": MemberEncoding(file=True)}
    given = {"body": base64.b64encode(PNG).decode()}
    heard = await send(yard, given, method="PUT", body="raw", whole_body="body", encoding=octets)
    assert heard.body == PNG and heard.headers["content-type"] == "application/octet-stream"
    given = {"body": {"data": "", "content_type": "image/gif"}}  # type: ignore[dict-item]
    heard = await send(yard, given, method="PUT", body="raw", whole_body="body", encoding=octets)
    assert heard.body == b"" and heard.headers["content-type"] == "image/gif"
    heard = await send(yard, {"body": "a,b\n"}, body="raw", whole_body="body", secrets={"Content-Type": "text/csv"})
    assert heard.body == b"a,b\n" and heard.headers["content-type"] == "text/csv"


# Header fields


@pytest_twisted.ensureDeferred
async def test_inputs_become_header_fields(yard: Yard) -> None:
    """An input that is declared so goes into its field alone: not into the body, not into the query."""
    given = {"account": "acct_1", "version": 3, "ids": ["a", "b"], "amount": 5, "absent": None}
    heard = await send(
        yard, given,
        input_headers={"account": "Stripe-Account", "version": "X-Version", "ids": "X-Ids", "absent": "X-Absent"},
    )  # fmt: skip
    sent = {name: heard.headers.get(name) for name in ("stripe-account", "x-version", "x-ids", "x-absent")}
    assert sent == {"stripe-account": "acct_1", "x-version": "3", "x-ids": "a,b", "x-absent": None}
    assert heard.json() == {"amount": 5}


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", " a", "a\x00b", "é", "\r\n", "x" * 5000, ["a", "b\r\nc"]])
async def test_header_inputs_cannot_begin_lines(yard: Yard, value: Any) -> None:
    """What is not one printable line of ASCII is refused before anything is sent."""
    assert "header field" in await refusal(yard, {"account": value}, input_headers={"account": "X-Account"})
