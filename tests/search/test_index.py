"""Ranking by words: what is hidden changes nothing, scores are from 0 to 1, and languages count (HAIDIP-015, 023)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agtphost.search import lexical
from agtphost.search.index import SearchEntry
from agtphost.search.languages import language_of
from tests.rows import each_row
from tests.search.hosts import Meanings, Searches

TOOLS = [
    SearchEntry("merge_pull_request", "Merge a pull request in a repository."),
    SearchEntry("createIssue", "Open a new issue, with labels and people."),
    SearchEntry("list_issues", "List the issues of a repository."),
    SearchEntry("send_mail", "Send a message to somebody."),
]

WORDS = ("book", "room", "boat", "lake", "merge", "issue", "list", "send", "mail", "night")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
entries = st.lists(st.builds(SearchEntry, texts, texts), min_size=1, max_size=8)


def test_the_best_comes_first() -> None:
    """Of a name whose words run together as well, and of other forms of a word."""
    found = Searches(TOOLS)
    assert found.names("merging pull requests")[0] == "merge_pull_request"
    assert found.names("create an issue")[0] == "createIssue"
    assert found.names("tell a joke") == []


@given(entries, entries, texts, st.booleans(), st.randoms(use_true_random=False))
def test_what_is_hidden_changes_nothing(shown, hidden, query, meaning, random) -> None:  # type: ignore[no-untyped-def]
    """Whoever may not know of some entries gets the hits, counts and scores that there are without them."""
    mixed = [*((entry, 1) for entry in shown), *((entry, 0) for entry in hidden)]
    order = sorted(range(len(mixed)), key=lambda n: random.random() if n >= len(shown) else n / len(shown))
    among = bytes(mixed[n][1] for n in order)
    embedders = (Meanings(*WORDS), Meanings(*WORDS)) if meaning else (None, None)
    alone = Searches([mixed[n][0] for n in order if mixed[n][1]], embedders[0])
    crowded = Searches([mixed[n][0] for n in order], embedders[1])
    places = [place for place, there in enumerate(among) if there]
    found = alone.find(query)
    expected = [(places[number], score) for number, score in found.hits]
    got = crowded.find(query, among=among)
    assert (got.total, got.engine, list(got.hits)) == (found.total, found.engine, expected)
    # A filter leaves the same, and may weigh it otherwise.
    got = crowded.find(query, admits=lambda number: bool(among[number]))
    assert sorted(number for number, _ in got.hits) == sorted(number for number, _ in expected)


@given(entries, texts, st.booleans())
def test_scores_are_from_0_to_1_and_fall(shown, query, meaning) -> None:  # type: ignore[no-untyped-def]
    """HAIDIP-023: never over 1, the best first, and equal ones in the order of what there is."""
    found = Searches(shown, Meanings(*WORDS) if meaning else None).find(query)
    scores = [score for _, score in found.hits]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
    assert found.total == len(found.hits)


def test_more_of_what_was_asked_scores_more() -> None:
    """HAIDIP-023: a score is how much of the query an entry answers, so it compares between queries too."""
    found = Searches(TOOLS)
    whole = found.find("merge pull request").hits[0][1]
    part = found.find("merge with teleportation and dragons").hits[0][1]
    assert 0.5 < whole <= 1 and part < whole / 2


SPEAKERS = [
    SearchEntry("polyglot", "Translates documents.", ("fr", "zh-Hant")),
    SearchEntry("translator", "Translates documents.", ("de", "fr")),
    SearchEntry("cook", "Knows recipes.", ("de",)),
]


@each_row(
    ("query", "first"),
    [
        ("translate documents to Chinese", "polyglot"),
        ("translate documents into German", "translator"),
        ("Dokumente translate auf Deutsch", "translator"),
        ("traduire en français: translate", "polyglot"),
        ("someone who speaks Mandarin", "polyglot"),
    ],
)
def test_the_language_that_is_asked_for_counts(query: str, first: str) -> None:
    """HAIDIP-015: supported languages are matched by what they are called, in English and in themselves."""
    found = Searches(SPEAKERS).find(query)
    assert SPEAKERS[found.hits[0][0]].name == first and found.hits[0][1] <= 1


@each_row(
    ("query", "language"),
    [
        ("polish the table", ""),
        ("in Polish please", "pl"),
        ("translate to polish", "pl"),
        ("from German to French", "fr"),
        ("这个翻译成中文", "zh"),
        ("book a room", ""),
        ("", ""),
    ],
)
def test_languages_are_told_from_other_words(query: str, language: str) -> None:
    """A verb that is a language as well is one where something says so."""
    assert language_of(query) == language


def test_only_the_rarest_words_are_looked_for() -> None:
    """A word that nearly everything has costs as much as all of it, and says nothing."""
    many = [SearchEntry(f"thing {n}", "common usual plain normal everyday ordinary") for n in range(50)]
    found = Searches([*many, SearchEntry("rarity", "one of its kind common")])
    assert found.names("common usual plain normal everyday ordinary rarity", limit=1) == ["rarity"]
    assert lexical.RAREST == 5


def test_a_hidden_crowd_would_be_told_by_the_usual_weights() -> None:
    """The control: rarity counted over everything, as full-text searches count it, tells of what is hidden."""
    alone = lexical.Lexicon([("boat", "a boat on the lake"), ("lake", "the lake at night")])
    crowd = [("boat", "boat")] * 40
    crowded = lexical.Lexicon([("boat", "a boat on the lake"), ("lake", "the lake at night"), *crowd])
    two = b"\1\1"
    query = "boat night"
    assert alone.scores(query, two)[0] == crowded.scores(query, two + bytes(40))[0][:2]
    assert alone.scores(query, two)[0] != crowded.scores(query, two + b"\1" * 40)[0][:2]
