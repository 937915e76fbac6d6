"""An embeddings service over real sockets: what it makes of searches, and what searches do without it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from agtphost.search import remote
from agtphost.search.engine import EmbedderError, SearchEngine
from agtphost.search.index import Index, SearchEntry, SearchQuery, SearchResult
from agtphost.search.remote import RemoteEmbedder
from agtphost.upstream.https import trust_of
from tests.rows import each_row
from tests.search.embeddings_server import Service, serving

THINGS = [
    SearchEntry("query_library", "Returns a book of the shelf."),
    SearchEntry("reserve_room", "A bed for a guest."),
]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """One for all tests."""
    with serving() as started:
        yield started


def asking(url: str, **more: Any) -> RemoteEmbedder:
    """A client of it."""
    given: dict[str, Any] = {"model": "small", "headers": {"authorization": "Bearer sesame"}, **more}
    return RemoteEmbedder(reactor, deferToThread, url=url, trust=trust_of(None), **given)


async def found(embedder: RemoteEmbedder, text: str = "reserve novel") -> SearchResult:
    """What an engine of its own finds with it."""
    return await SearchEngine(deferToThread, reactor, embedder).search(Index(THINGS), SearchQuery(text=text))


def names(answer: SearchResult) -> list[str]:
    """Best first."""
    return [THINGS[number].name for number, _ in answer.hits]


async def test_it_is_asked_as_openai_is(service: Service) -> None:
    """With model and key; its vectors are put where their ``index`` says, and find what no word names."""
    service.way = "right"
    embedder = asking(service.url)
    seen = len(service.asked)
    answer = await found(embedder, "borrow a novel")
    embedder.close()
    assert (answer.engine, answer.degraded, names(answer)) == ("http", "", ["query_library"])
    first, second = service.asked[seen:]
    assert [first["model"], first["encoding_format"], len(first["input"])] == ["small", "float", 2]
    assert set(first) == {"model", "encoding_format", "input"}
    assert second["input"] == ["borrow a novel"] and set(service.keys) == {"Bearer sesame"}


FAULTS = {
    "500": "the embeddings service answered 500",
    "redirect": "the embeddings service answered 302",
    "no JSON": "the answer of the embeddings service has no valid embeddings",
    "one vector too few": "the answer of the embeddings service has no valid embeddings",
    "of different lengths": "its vectors have different lengths",
    "far too long": "the answer of the embeddings service is too long",
    "no answer": "the embeddings service did not answer within 1 s",
}


@each_row("way", FAULTS)
async def test_without_it_words_count(service: Service, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Each failure leaves the search by words, which says so and why; nobody goes where a redirect points."""
    monkeypatch.setattr(remote, "LARGEST", 1 << 20)
    service.way = way
    embedder = asking(service.url, timeout=1.0 if way == "no answer" else 30.0)
    seen = len(service.paths)
    answer = await found(embedder)
    embedder.close()
    assert (answer.engine, answer.degraded, names(answer)) == ("bm25", FAULTS[way], ["reserve_room"])
    assert service.paths[seen:] == ["/v1/embeddings"]
    # The control: with the same words it is another answer where nothing is wrong.
    service.way = "right"
    again = asking(service.url)
    assert set(names(await found(again))) == {"query_library", "reserve_room"}
    again.close()


async def test_a_model_that_changed_is_noticed(service: Service) -> None:
    """Its vectors have another length: they are compared with none, and made anew."""
    service.way = "right"
    embedder = asking(service.url)
    engine, index = SearchEngine(deferToThread, reactor, embedder), Index(THINGS)
    assert (await engine.search(index, SearchQuery(text="novel"))).engine == "http"
    service.way = "one number more"
    changed = await engine.search(index, SearchQuery(text="novel borrow"))
    assert changed.engine == "bm25" and "another length" in changed.degraded
    assert (await engine.search(index, SearchQuery(text="novel shelf"))).engine == "http" and index.width == 3
    embedder.close()


async def test_nobody_there_and_nobody_who_may_be_asked() -> None:
    """A port that is closed; and the address of a cloud's metadata, which no request is sent to."""
    for url, why in (
        ("http://127.0.0.1:9/v1/embeddings", "nothing listens there"),
        ("https://169.254.169.254/v1/embeddings", "must not be connected to"),
        ("https://127.0.0.1:9/v1/embeddings", "must not be connected to"),
    ):
        embedder = asking(url)
        with pytest.raises(EmbedderError, match=why):
            await embedder.embed(["novel"])
        assert (await found(embedder)).engine == "bm25"
    # The control: the operator may allow a network, and then it is tried.
    with pytest.raises(EmbedderError, match="nothing listens there"):
        await asking("https://127.0.0.1:9/v1/embeddings", allowed=[ip_network("127.0.0.0/8")]).embed(["novel"])


async def test_connections_are_kept_and_then_closed(service: Service) -> None:
    """Further texts take the same connection; :meth:`close` ends it on both sides."""
    service.way = "right"
    embedder = asking(service.url)
    before = set(service.connected)
    await embedder.embed(["novel"])
    opened = service.connected - before
    await embedder.embed(["bed"])
    assert len(opened) == 1 and service.connected - before == opened
    embedder.close()
    until = reactor.seconds() + 30.0  # type: ignore[attr-defined]
    while service.connected & opened:
        assert reactor.seconds() < until  # type: ignore[attr-defined]
        await deferLater(reactor, 0.01)
