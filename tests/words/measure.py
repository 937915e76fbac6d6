"""Find names, docstrings, comments, messages and pages that break the rules of plain words."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import re2

from tests.sources import nodes

LISTS = tomllib.loads((Path(__file__).parent / "word_lists.toml").read_text())
VERBS = frozenset(LISTS["verbs"])
PARTICIPLES = frozenset(LISTS["participles"])
PARTICLES = frozenset(LISTS["particles"])
CLAUSE_OPENERS = frozenset(LISTS["clause_openers"])
MANNERED = re2.compile(r"(?i)\b(?:{})\b".format("|".join(LISTS["mannered"])))
COMMENT_OR_STRING = re.compile(
    r"""#[^\n]*|\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL
)
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
LITERAL_BLOCK = re.compile(r"::\n\n(?:(?:[ \t]+.*)?\n)+", re.MULTILINE)
INLINE_LITERAL = re.compile(r"``[^`]*``")
SENTENCE_END = re.compile(r"(?<=[.:;?!])\s")
# A sentence has a subject or a verb, and an object.
NOUN_OPENERS = frozenset({"the", "a", "an", "every", "each", "all", "no", "whether"})
PROPERTIES = frozenset({"property", "cached_property"})
FEWEST_WORDS = 3
# A string of fewer words is a token, a key or a label rather than a message.
FEWEST_MESSAGE_WORDS = 3
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MEASURED = {*FUNCTIONS, ast.ClassDef, ast.Expr, ast.Constant}


@dataclass(frozen=True)
class Finding:
    """A place that breaks a rule: ``line`` counts from 1, ``text`` is the name or the words."""

    path: Path
    line: int
    text: str


@dataclass
class Measure:
    """The counts and findings of one package, or of one set of pages."""

    functions: int = 0
    code_words: int = 0
    message_words: int = 0
    names: list[Finding] = field(default_factory=list)
    mannered: list[Finding] = field(default_factory=list)
    mannered_messages: list[Finding] = field(default_factory=list)
    fragments: list[Finding] = field(default_factory=list)
    nouns: list[Finding] = field(default_factory=list)
    classes: list[Finding] = field(default_factory=list)

    @property
    def name_share(self) -> float:
        """Return the functions with a bare name, in percent of all."""
        return 100 * len(self.names) / max(1, self.functions)

    @property
    def mannered_share(self) -> float:
        """Return the mannered words of docstrings and comments, or of pages, per 1,000."""
        return 1000 * len(self.mannered) / max(1, self.code_words)

    @property
    def message_share(self) -> float:
        """Return the mannered words of messages, per 1,000."""
        return 1000 * len(self.mannered_messages) / max(1, self.message_words)

    def add(self, other: Measure) -> None:
        """Add the counts and findings of another measure."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def is_bare_name(name: str) -> bool:
    """
    Return whether a function's name is a lone participle, adverb or preposition.

    Names in camel case, such as ``dataReceived``, have several words, and are given by foreign interfaces.
    """
    word = name.strip("_")
    if "_" in word or word in VERBS or not word.islower():
        return False
    return word.endswith("ed") or word in PARTICIPLES or word in PARTICLES


def is_fragment(docstring: str) -> bool:
    """Return whether a docstring does not begin with a sentence that needs no other context."""
    first = SENTENCE_END.split(docstring.strip(), maxsplit=1)[0]
    words = first.split()
    if len(words) < FEWEST_WORDS:
        return True
    return words[0].strip(".,:;").lower() in CLAUSE_OPENERS


def is_noun_phrase(node: ast.FunctionDef | ast.AsyncFunctionDef, docstring: str) -> bool:
    """Return whether the docstring of a function, which does something, only names a thing; a property may."""
    if any(getattr(each, "id", "") in PROPERTIES for each in node.decorator_list):
        return False
    return docstring.split(maxsplit=1)[0].lower() in NOUN_OPENERS


def measure_source(path: Path, source: str) -> Measure:
    """Measure one Python module."""
    found = Measure()
    docstrings = set()
    for node in nodes(source):
        if type(node) not in MEASURED:
            continue
        if isinstance(node, FUNCTIONS):
            found.functions += 1
            if is_bare_name(node.name):
                found.names.append(Finding(path, node.lineno, node.name))
        if isinstance(node, ast.ClassDef):
            found.classes.append(Finding(path, node.lineno, node.name))
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            text = ast.get_docstring(node)
            if text and isinstance(node, FUNCTIONS) and is_noun_phrase(node, text):
                found.nouns.append(Finding(path, node.lineno, f"{node.name}: {text.splitlines()[0]}"))
            if text is not None and is_fragment(text):
                found.fragments.append(Finding(path, node.lineno, f"{node.name}: {text.splitlines()[0]}"))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.add(id(node.value))
            _count_words(found, path, node.lineno, node.value.value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            _count_message_words(found, path, node.lineno, node.value)
    for line, comment in _comments(source):
        _count_words(found, path, line, comment)
    return found


def measure_page(path: Path, text: str) -> Measure:
    """Measure one page of reStructuredText; literal blocks and inline literals do not count."""
    found = Measure()
    prose = LITERAL_BLOCK.sub(lambda block: "\n" * block.group().count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        _count_words(found, path, number, INLINE_LITERAL.sub(" ", line))
    return found


def measure_package(modules: Iterable[Path]) -> Measure:
    """Measure several modules as one package."""
    found = Measure()
    for path in modules:
        found.add(measure_source(path, path.read_text()))
    return found


def repeated_classes(measures: Iterable[Measure], most: int = 3) -> dict[str, int]:
    """Return the names that more than ``most`` classes have, and how many."""
    counts = Counter(each.text for measure in measures for each in measure.classes)
    return {name: count for name, count in counts.most_common() if count > most}


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each comment; a regular expression takes a tenth of the time of ``tokenize``."""
    line, at = 1, 0
    for match in COMMENT_OR_STRING.finditer(source):
        if match.group().startswith("#"):
            line += source.count("\n", at, match.start())
            at = match.start()
            yield line, match.group().lstrip("#:")


def _count_words(found: Measure, path: Path, line: int, text: str) -> None:
    """Add the words of a docstring, comment or line of a page, and the mannered ones among them."""
    found.code_words += len(WORD.findall(text))
    for match in MANNERED.finditer(text):
        found.mannered.append(_finding_at(path, line, text, match))


def _count_message_words(found: Measure, path: Path, line: int, text: str) -> None:
    """Add the words of a string literal that is long enough to be a message."""
    words = WORD.findall(text)
    if len(words) < FEWEST_MESSAGE_WORDS or " " not in text:
        return
    found.message_words += len(words)
    for match in MANNERED.finditer(text):
        found.mannered_messages.append(_finding_at(path, line, text, match))


def _finding_at(path: Path, line: int, text: str, match: re.Match[str]) -> Finding:
    """Return the line of a match with the words around it."""
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    around = text[start : end if end >= 0 else len(text)].strip()
    return Finding(path, line + text.count("\n", 0, match.start()), f"[{match.group()}] {around}")
