"""The six URI forms and what is none of them: core v08 section 6.1 (AGTP-097 to AGTP-110)."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.uris import DEFAULT_PORT, AgtpUri, Form, UriError, parse
from tests.rows import each_row

MALFORMED_ID, MALFORMED_URI = Reason.INVALID_CANONICAL_ID, Reason.INVALID_URI_FORM

ID = "7f3a9c2d" * 8

ACCEPTED: list[tuple[str, AgtpUri]] = [
    (f"agtp://{ID}", AgtpUri(form=Form.AGENT, agent_id=ID)),
    (f"agtp://{ID}?format=json", AgtpUri(form=Form.AGENT, agent_id=ID, query="format=json")),
    (f"agtp://{ID}@agents.acme.com", AgtpUri(form=Form.AGENT_AT_HOST, agent_id=ID, host="agents.acme.com")),
    (f"agtp://{ID}@192.0.2.42", AgtpUri(form=Form.AGENT_AT_HOST, agent_id=ID, host="192.0.2.42")),
    (
        f"agtp://{ID}@agents.acme.com:9999",
        AgtpUri(form=Form.AGENT_AT_HOST, agent_id=ID, host="agents.acme.com", port=9999),
    ),
    (
        f"agtp://{ID}@[2001:db8::42]:1",
        AgtpUri(form=Form.AGENT_AT_HOST, agent_id=ID, host="2001:db8::42", port=1),
    ),
    ("agtp://acme.com:9999/agents", AgtpUri(form=Form.NAMESPACE, host="acme.com", port=9999)),
    (
        "agtp://acme.com:9999/agents/x",
        AgtpUri(form=Form.NAMED_AGENT, host="acme.com", port=9999, agent_name="x"),
    ),
    ("agtp://agents.acme.com:9999", AgtpUri(form=Form.SERVER, host="agents.acme.com", port=9999)),
    ("agtp://192.0.2.42", AgtpUri(form=Form.SERVER, host="192.0.2.42")),
    ("agtp://192.0.2.42:65535", AgtpUri(form=Form.SERVER, host="192.0.2.42", port=65535)),
    ("agtp://[2001:db8::42]", AgtpUri(form=Form.SERVER, host="2001:db8::42")),
    ("agtp://[::1]:50443", AgtpUri(form=Form.SERVER, host="::1", port=50443)),
    ("agtp://edge_7.acme.com", AgtpUri(form=Form.SERVER, host="edge_7.acme.com")),
    ("agtp://localhost:4481", AgtpUri(form=Form.SERVER, host="localhost", port=4481)),
    ("agtp://acme.com:4480", AgtpUri(form=Form.SERVER, host="acme.com")),
    ("agtp://acme.com", AgtpUri(form=Form.DOMAIN, host="acme.com")),
    ("agtp://localhost", AgtpUri(form=Form.DOMAIN, host="localhost")),
    ("agtp://agtp-edge-7.us-east.acme.com", AgtpUri(form=Form.DOMAIN, host="agtp-edge-7.us-east.acme.com")),
    ("agtp://xn--bcher-kva.example", AgtpUri(form=Form.DOMAIN, host="xn--bcher-kva.example")),
    ("agtp://3com.example", AgtpUri(form=Form.DOMAIN, host="3com.example")),
    ("AGTP://Acme.COM", AgtpUri(form=Form.DOMAIN, host="acme.com")),
    ("agtp://acme.com?format=manifest", AgtpUri(form=Form.DOMAIN, host="acme.com", query="format=manifest")),
    ("agtp://acme.com?", AgtpUri(form=Form.DOMAIN, host="acme.com", query="")),
    ("agtp://acme.com?a=/?:@%41", AgtpUri(form=Form.DOMAIN, host="acme.com", query="a=/?:@%41")),
    ("agtp://agent.acme.com", AgtpUri(form=Form.DOMAIN, host="agent.acme.com")),
    ("agtp://agtp", AgtpUri(form=Form.DOMAIN, host="agtp")),
    (
        "agtp://acme.com/agents/bookbot",
        AgtpUri(form=Form.NAMED_AGENT, host="acme.com", agent_name="bookbot"),
    ),
    (
        "agtp://acme.com/agents/Book_bot-7?format=status",
        AgtpUri(form=Form.NAMED_AGENT, host="acme.com", agent_name="Book_bot-7", query="format=status"),
    ),
    (
        "agtp://acme.com/agents/bookbot/status",
        AgtpUri(form=Form.NAMED_AGENT, host="acme.com", agent_name="bookbot", status=True),
    ),
    (
        "agtp://agtp.acme.com/agents/bookbot",
        AgtpUri(form=Form.NAMED_AGENT_AT_SUBDOMAIN, host="agtp.acme.com", agent_name="bookbot"),
    ),
    (
        "agtp://agtp.acme.com/agents/status/status",
        AgtpUri(form=Form.NAMED_AGENT_AT_SUBDOMAIN, host="agtp.acme.com", agent_name="status", status=True),
    ),
    ("agtp://localhost/agents/demo", AgtpUri(form=Form.NAMED_AGENT, host="localhost", agent_name="demo")),
    ("agtp://acme.com/agents", AgtpUri(form=Form.NAMESPACE, host="acme.com")),
]

REFUSED: list[tuple[str, str]] = [
    (f"agtp://{ID[:-1]}", MALFORMED_ID),
    (f"agtp://{ID}0", MALFORMED_ID),
    (f"agtp://{ID.upper()}", MALFORMED_ID),
    (f"agtp://{ID[:-1]}g", MALFORMED_ID),
    (f"agtp://{ID[:-1]}@acme.com", MALFORMED_ID),
    (f"agtp://{ID.upper()}@acme.com", MALFORMED_ID),
    ("agtp://@acme.com", MALFORMED_ID),
    ("agtp://user@acme.com", MALFORMED_ID),
    ("agtp://user:secret@acme.com", MALFORMED_ID),
    (f"agtp://{ID}@{ID}@acme.com", MALFORMED_ID),
    (f"agtp://{ID}@", MALFORMED_URI),
    (f"agtp://{ID}@acme.com/agents/x", MALFORMED_URI),
    (f"agtp://{ID}/agents/x", MALFORMED_URI),
    (f"agtp://{ID}:4480", MALFORMED_URI),
    ("", MALFORMED_URI),
    ("agtp://", MALFORMED_URI),
    ("agtp:acme.com", MALFORMED_URI),
    ("agtp:/acme.com", MALFORMED_URI),
    ("acme.com", MALFORMED_URI),
    ("acme.com:4480", MALFORMED_URI),
    ("//acme.com", MALFORMED_URI),
    ("https://acme.com", MALFORMED_URI),
    ("agtps://acme.com", MALFORMED_URI),
    ("agtp://:4480", MALFORMED_URI),
    ("agtp://acme.com:", MALFORMED_URI),
    ("agtp://acme.com:0", MALFORMED_URI),
    ("agtp://acme.com:65536", MALFORMED_URI),
    ("agtp://acme.com:+80", MALFORMED_URI),
    ("agtp://acme.com:8_0", MALFORMED_URI),
    ("agtp://acme.com:٤٤", MALFORMED_URI),
    ("agtp://acme.com:80:80", MALFORMED_URI),
    ("agtp://::1", MALFORMED_URI),
    ("agtp://[::1", MALFORMED_URI),
    ("agtp://[::1]4480", MALFORMED_URI),
    ("agtp://[fe80::1%25eth0]", MALFORMED_URI),
    ("agtp://[fe80::1%eth0]", MALFORMED_URI),
    ("agtp://[v1.a]", MALFORMED_URI),
    ("agtp://[127.0.0.1]", MALFORMED_URI),
    ("agtp://127.1", MALFORMED_URI),
    ("agtp://127.0.0.01", MALFORMED_URI),
    ("agtp://256.0.0.1", MALFORMED_URI),
    ("agtp://2130706433", MALFORMED_URI),
    ("agtp://0x7f000001", MALFORMED_URI),
    ("agtp://acme.0x7f", MALFORMED_URI),
    ("agtp://acme.com.", MALFORMED_URI),
    ("agtp://acme..com", MALFORMED_URI),
    ("agtp://.acme.com", MALFORMED_URI),
    ("agtp://-acme.com", MALFORMED_URI),
    ("agtp://" + "a" * 64 + ".com", MALFORMED_URI),
    ("agtp://" + "a." * 127 + "com", MALFORMED_URI),
    ("agtp://ac%6De.com", MALFORMED_URI),
    ("agtp://ac me.com", MALFORMED_URI),
    ("agtp://bücher.example", MALFORMED_URI),
    ("agtp://acme.com\r\nAgent-ID: x", MALFORMED_URI),
    ("agtp://acme.com\n", MALFORMED_URI),
    ("agtp://acme.com#top", MALFORMED_URI),
    ("agtp://acme.com?q=a b", MALFORMED_URI),
    ("agtp://acme.com?q=%4", MALFORMED_URI),
    ("agtp://acme.com?q=[1]", MALFORMED_URI),
    ("agtp://acme.agent", MALFORMED_URI),
    ("agtp://acme.nomo", MALFORMED_URI),
    ("agtp://acme.AGTP:4480", MALFORMED_URI),
    ("agtp://acme.com/", MALFORMED_URI),
    ("agtp://acme.com//agents/x", MALFORMED_URI),
    ("agtp://acme.com/room/1", MALFORMED_URI),
    ("agtp://acme.com/Agents/x", MALFORMED_URI),
    ("agtp://acme.com/agents/", MALFORMED_URI),
    ("agtp://acme.com/agents//", MALFORMED_URI),
    ("agtp://acme.com/agents/bad name", MALFORMED_URI),
    ("agtp://acme.com/agents/bad%20name", MALFORMED_URI),
    ("agtp://acme.com/agents/customer-service.agent", MALFORMED_URI),
    ("agtp://acme.com/agents/customer-service.nomo", MALFORMED_URI),
    ("agtp://acme.com/agents/customer-service.agtp", MALFORMED_URI),
    ("agtp://acme.com/agents/a.b.c", MALFORMED_URI),
    ("agtp://acme.com/agents/..", MALFORMED_URI),
    ("agtp://acme.com/agents/x/", MALFORMED_URI),
    ("agtp://acme.com/agents/x/documents", MALFORMED_URI),
    ("agtp://acme.com/agents/x/status/more", MALFORMED_URI),
    ("agtp://acme.com/agents/" + "x" * 65, MALFORMED_URI),
    ("agtp://1.2.3.4/agents/x", MALFORMED_URI),
    ("agtp://[::1]/agents/x", MALFORMED_URI),
    ("agtp://edge_7.acme.com/agents/x", MALFORMED_URI),
    ("agtp://acme.com?" + "q" * 2048, MALFORMED_URI),
]


@each_row(("text", "expected"), ACCEPTED, ids=[text for text, _ in ACCEPTED])
def test_a_uri_is_read_as_its_form(text: str, expected: AgtpUri) -> None:
    """Each form, host kind, port and query is read as what it is (AGTP-097 to AGTP-102, AGTP-104)."""
    assert parse(text) == expected


@each_row(("text", "expected"), ACCEPTED, ids=[text for text, _ in ACCEPTED])
def test_a_uri_is_written_as_it_is_read(text: str, expected: AgtpUri) -> None:
    """The canonical spelling reads back to the same value; only a default port and letter case may differ."""
    written = str(expected)
    if ":4480" not in text:
        assert parse(written) == expected
        assert written.lower() == text.lower()


@each_row(("text", "reason"), REFUSED, ids=[repr(text)[:60] for text, _ in REFUSED])
def test_what_is_no_uri_is_refused(text: str, reason: str) -> None:
    """Everything outside the grammar is refused with the draft's code (AGTP-103 to AGTP-106, AGTP-110)."""
    with pytest.raises(UriError) as refused:
        parse(text)
    assert refused.value.reason == reason
    assert refused.value.explanation.endswith(".")


def test_the_table_is_large_enough() -> None:
    """The tables hold well over 60 cases, none of them twice."""
    texts = [text for text, _ in ACCEPTED] + [text for text, _ in REFUSED]
    assert len(texts) == len(set(texts)) > 60


def test_a_missing_scheme_is_answered_with_the_whole_uri() -> None:
    """``host:port`` alone is an error whose hint can be pasted."""
    with pytest.raises(UriError) as refused:
        parse("localhost:4481")
    assert refused.value.hint == "write agtp://localhost:4481"
    assert parse("agtp://localhost:4481").port == 4481


@pytest.mark.parametrize("suffix", ["agent", "nomo", "agtp"])
def test_a_package_suffix_is_answered_with_the_canonical_uri(suffix: str) -> None:
    """A file suffix is not part of an address; the hint is the address (AGTP-108, AGTP-109)."""
    with pytest.raises(UriError) as refused:
        parse(f"agtp://acme.com/agents/bookbot.{suffix}")
    assert refused.value.hint == "write agtp://acme.com/agents/bookbot"


def test_a_port_is_4480_unless_written() -> None:
    """Clients dial 4480 where a URI names no port (AGTP-002)."""
    assert DEFAULT_PORT == 4480
    texts = ("agtp://acme.com", "agtp://[::1]", f"agtp://{ID}@acme.com", "agtp://acme.com/agents/x")
    assert {parse(text).port for text in texts} == {4480}


def test_an_agent_is_reached_by_the_reserved_path() -> None:
    """Forms 1a, 3 and 4 become a path under /agents; servers and domains do not (AGTP-121, AGTP-122)."""
    assert parse(f"agtp://{ID}@acme.com").agent_path == f"/agents/{ID}"
    assert parse("agtp://agtp.acme.com/agents/bookbot").agent_path == "/agents/bookbot"
    assert parse("agtp://acme.com").agent_path == parse("agtp://acme.com/agents").agent_path == ""


LABELS = st.from_regex(r"[a-z](?:[a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).filter(
    lambda label: label not in ("agent", "nomo", "agtp")
)
DOMAINS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
ADDRESSES = st.one_of(st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str), DOMAINS)
PORTS = st.integers(1, 65535)
NAMES = st.text(string.ascii_letters + string.digits + "-_", min_size=1, max_size=64)
IDS = st.text("0123456789abcdef", min_size=64, max_size=64)
QUERIES = st.none() | st.text(string.ascii_letters + string.digits + "-._~!$&'()*+,;=:@/?", max_size=30)


@st.composite
def uris(draw: st.DrawFn) -> AgtpUri:
    """Any value of any form."""
    query = draw(QUERIES)
    form = draw(st.sampled_from(list(Form)))
    if form is Form.AGENT:
        return AgtpUri(form=form, agent_id=draw(IDS), query=query)
    if form is Form.AGENT_AT_HOST:
        return AgtpUri(form=form, agent_id=draw(IDS), host=draw(ADDRESSES), port=draw(PORTS), query=query)
    if form is Form.SERVER:
        port = draw(PORTS.filter(lambda number: number != DEFAULT_PORT))
        return AgtpUri(form=form, host=draw(ADDRESSES), port=port, query=query)
    domain = draw(DOMAINS)
    if form in (Form.DOMAIN, Form.NAMESPACE):
        return AgtpUri(form=form, host=domain, query=query)
    if form is Form.NAMED_AGENT_AT_SUBDOMAIN:
        domain = f"agtp.{domain}"
    return AgtpUri(form=form, host=domain, agent_name=draw(NAMES), status=draw(st.booleans()), query=query)


@given(uris())
def test_every_value_survives_writing_and_reading(uri: AgtpUri) -> None:
    """parse(str(uri)) is uri, for any form."""
    assert parse(str(uri)) == uri


@given(st.text(max_size=120) | st.text("agtp:/@.[]?#%-_0127fx", max_size=60).map("agtp://{}".format))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes the parser fail in another way; what it reads, it reads again from its own spelling."""
    try:
        uri = parse(text)
    except UriError:
        return
    again = parse(str(uri))
    assert again == uri or (uri.form, again.form, uri.port) == (Form.SERVER, Form.DOMAIN, DEFAULT_PORT)
