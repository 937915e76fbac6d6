"""
QUERY: core v08 section 7.2.1.

Answered from what the host holds: the agents it shows, what the caller could
call, and the documents that the operator exposes. The same question has the
same answer as long as these are the same. An operator who has a better answer
declares an endpoint ``QUERY /``, which takes this one's place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution
from agtphost.methods.cognitive import relevance
from agtphost.methods.cognitive.documents import Library
from agtphost.methods.cognitive.relevance import Question
from agtphost.methods.discovery.visibility import Visibility
from agtphost.search.word_stems import terms
from agtphost.vocabulary import scopes

DOMAINS = ("agents", "endpoints", "tools", "documents")
FORMATS = ("structured", "natural", "raw")
EXCERPT = 400
"""Characters of a result that are shown unless ``format`` is ``raw``."""

PAGE = 100
PASSAGES = 50
"""Passages that are looked at closely."""

INTENT = 8_192
"""Octets of an intent or a goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A thing of this host that a question can be about."""

    domain: str
    source: str
    """Where it comes from, in a form that can be used again."""

    title: str
    text: str
    words: frozenset[str]
    document: str = ""
    """Of a passage, the document's name."""

    details: Mapping[str, Any] = field(default_factory=dict)


class Corpus:
    """
    The things that a caller may ask about.

    :param bindings: everything that can be called; read at every call.
    :param adapters: whose tools are among it.
    :param visibility: which agents a caller is shown.
    :param offload: calls a function off the reactor.
    """

    def __init__(
        self,
        directory: IAgentDirectory,
        bindings: Callable[[], Iterable[Binding]],
        adapters: Sequence[IPayloadAdapter],
        library: Library,
        visibility: Visibility,
        offload: Callable[..., Awaitable[Any]],
    ) -> None:
        self.offload = offload
        self._visibility = visibility
        self._directory = directory
        self._bindings = bindings
        self._adapters = adapters
        self.library = library

    def agents(self, context: BuiltInContext) -> Iterator[Holding]:
        """Yield the hosted agents, if the caller may see them."""
        # A question is a search: what it finds is bounded as candidates are (core v08 section 7.2.2).
        for agent in filter(self._visibility.in_searches(context), self._directory.list_hosted()):
            yield _of_agent(agent)

    def endpoints(self, context: BuiltInContext) -> list[Binding]:
        """Return the endpoints that the caller may call."""
        return [binding for binding in self._bindings() if context.admits(binding)]

    def tools(self, context: BuiltInContext) -> list[Binding]:
        """Return the tools that the caller could call."""
        return execution.callable_tools(self._adapters, context)

    def passages(self, question: str) -> Iterator[Holding]:
        """Yield the passages closest to a question."""
        for passage in self.library.find(question, PASSAGES):
            yield Holding(
                domain="documents",
                source=passage.source,
                title=passage.document,
                text=passage.text,
                words=words_of(f"{passage.document} {passage.text}"),
                document=passage.document,
                details={"passage": passage.number},
            )


@lru_cache(maxsize=4_096)
def words_of(text: str) -> frozenset[str]:
    """Return the terms of a text."""
    return frozenset(terms(text))


def _of_agent(agent: Agent) -> Holding:
    text = f"{agent.name}: {agent.description}"
    return Holding(
        domain="agents",
        source=f"/agents/{agent.name}",
        title=agent.name,
        text=text,
        words=words_of(text),
        details={"agent_id": agent.agent_id, "principal": agent.principal},
    )


def text_of(binding: Binding) -> str:
    """Return the text that describes a binding: name, place, description, intent and outcome."""
    semantic = binding.details.get("semantic") or {}
    said = [str(semantic.get(name) or "") for name in ("intent", "outcome")]
    return " ".join([binding.name, binding.method, binding.path, binding.description, *said])


def of_binding(binding: Binding) -> Holding:
    """Return an endpoint or a tool as a source that QUERY can answer from."""
    text = text_of(binding)
    name = f"{binding.method} {binding.path}"
    return Holding(
        domain="tools" if binding.name else "endpoints",
        source=f"tool:{binding.name}" if binding.name else name,
        title=binding.name or name,
        text=binding.description or name,
        words=words_of(text),
        details={"method": binding.method, "path": binding.path},
    )


def _place_of(word: str) -> str:
    """Return the place among the holdings that a word of ``scope`` names; a foreign domain is unchanged."""
    domain, colon, rest = word.partition(":")
    if not colon or domain not in DOMAINS or not scopes.is_token(word):
        return word if not colon or scopes.is_token(word) else ""
    return domain if rest in ("*", "query") else f"{domain}/{rest}"


@dataclass(frozen=True, slots=True)
class Scope:
    """
    The holdings that a question is about: ``documents``, ``documents/reports``, ``-tools`` and so on.

    A word may have the form of a scope token, as in core v08 appendix D: ``documents:research`` is
    ``documents/research``, ``documents:*`` and ``documents:query`` all documents. One of a domain that is none
    here, ``knowledge:session``, holds nothing.
    """

    included: tuple[str, ...]
    excluded: tuple[str, ...]

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Scope:
        """
        Parse the value of ``scope``: words in a list, or in a text with commas.

        :raises agtphost.errors.Refusal: 422 for what names no domain.
        """
        value = given.get("scope")
        listed = value.replace(",", " ").split() if isinstance(value, str) else value
        if listed is None:
            return cls((), ())
        if not isinstance(listed, list) or len(listed) > 32:
            raise parameters.invalid("scope", "scope must be a text or a short list.", "Send documents, -tools.")
        included: list[str] = []
        excluded: list[str] = []
        for word in listed:
            given_name = word.lstrip("-!") if isinstance(word, str) else ""
            name = _place_of(given_name)
            if name.partition("/")[0] not in DOMAINS and ":" not in name:
                raise parameters.invalid(
                    "scope",
                    "scope names an unknown domain.",
                    f"Use {', '.join(DOMAINS)}, documents/FOLDER, or one of them with a leading '-'.",
                )
            (included if given_name == word else excluded).append(name)
        return cls(tuple(included), tuple(excluded))

    def wants(self, domain: str) -> bool:
        """Return whether the query may ask for something of a domain."""
        wanted = not self.included or any(name.partition("/")[0] == domain for name in self.included)
        return wanted and domain not in self.excluded

    def admits(self, holding: Holding) -> bool:
        """Return whether the query asks for a holding."""
        place = f"{holding.domain}/{holding.document}".rstrip("/")

        def is_within(name: str) -> bool:
            return place == name or place.startswith(f"{name.rstrip('/')}/")

        return (not self.included or any(map(is_within, self.included))) and not any(map(is_within, self.excluded))


def read_question(given: Mapping[str, Any], name: str) -> tuple[str, Any]:
    """
    Read a required question, in words or as JSON.

    :return: its words, and what was sent.
    :raises agtphost.errors.Refusal: 422 where there is none, or no word in it.
    """
    value = parameters.read_json(given, name, INTENT)
    if value is None:
        raise parameters.invalid(name, f"The parameter {name} is missing.", f"Send {name}.", missing=True)
    if not isinstance(value, (str, dict)) or not (text := relevance.said_in(value).strip()):
        raise parameters.invalid(name, f"{name} is neither text nor an object with words.", f"Say {name} in words.")
    return text, value


@implementer(IBuiltInHandler)
class Query:
    """Answers QUERY on ``/``."""

    kind = "built_in"

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the QUERY call.

        :raises agtphost.errors.Refusal: 422 for a question that cannot be read.
        """
        given = context.input
        text, _ = read_question(given, "intent")
        form = parameters.choice(given, "format", FORMATS, "structured")
        threshold = parameters.fraction(given, "confidence_threshold")
        most = parameters.count(given, "max_results", 10, PAGE)
        found = await self._corpus.offload(self._rank_holdings, context, text, Scope.read(given))
        results = [(confidence, holding) for confidence, holding in found if confidence >= threshold]
        return Answer(result=_document(results[:most], len(results), form))

    def _rank_holdings(self, context: BuiltInContext, text: str, scope: Scope) -> list[tuple[float, Holding]]:
        holdings = [holding for holding in self._list_holdings(context, text, scope) if scope.admits(holding)]
        question = Question(text, [holding.words for holding in holdings])
        found = [(question.confidence(holding.words), holding) for holding in holdings]
        return sorted(
            (each for each in found if each[0] > 0), key=lambda each: (-each[0], each[1].source, each[1].title)
        )

    def _list_holdings(self, context: BuiltInContext, text: str, scope: Scope) -> Iterator[Holding]:
        if scope.wants("agents"):
            yield from self._corpus.agents(context)
        if scope.wants("endpoints"):
            yield from map(of_binding, self._corpus.endpoints(context))
        if scope.wants("tools"):
            yield from map(of_binding, self._corpus.tools(context))
        if scope.wants("documents"):
            yield from self._corpus.passages(text)


def _document(results: Sequence[tuple[float, Holding]], count: int, form: str) -> dict[str, Any]:
    entries = []
    for confidence, holding in results:
        text = holding.text if form == "raw" or len(holding.text) <= EXCERPT else f"{holding.text[:EXCERPT]}..."
        entries.append(
            {
                "source": holding.source,
                "kind": holding.domain,
                "confidence": confidence,
                "title": holding.title,
                "text": text,
                **holding.details,
            }
        )
    document: dict[str, Any] = {"format": form, "results": entries, "count": count}
    if form == "natural":
        document["answer"] = (
            " ".join(f"{entry['text']} [{entry['source']}]" for entry in entries[:3])
            or "This host has nothing that answers the query."
        )
    return document
