"""
Whatever code, tests and docs cite is there: decisions, sections, rules, readings, threats, requirements, drafts.

The forms are those of ``docs/design/index.rst``, one for each kind of text. What a citation names is an anchor or a row
of ``docs/design``, a row of ``REQUIREMENTS.tsv``, or a case of ``tests/wire``.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import re2

from tests.rows import each_row
from tests.wire.cases import CASES

ROOT = Path(__file__).resolve().parents[1]
DESIGN = ROOT / "docs" / "design"

SUFFIXES = frozenset({".py", ".rst", ".md", ".toml", ".sql"})

GAP = r"(?:\s+(?:#:?\s+)?)"
"""White space, also where a comment goes on in its next line."""

NUMBER = r"(?:[0-9]+(?:\.[0-9]+)*[a-z]?|G[0-9]+|(?-i:[A-Z])(?:\.[0-9]+)*)\b(?!-)"
NUMBERS = rf"{NUMBER}(?:(?:,{GAP}(?:and{GAP})?|{GAP}and{GAP}|{GAP}to{GAP}){NUMBER})*"

KINDS = {
    "design": ("decision",),
    "interface": ("section",),
    "companion": ("section", "conflict"),
    "security": ("section", "invariant"),
    "adapters": ("section", "rule"),
    "spec": ("reading",),
}
"""The word in front, and what of that text can be cited."""

DRAFTS = ("core v08", "AGTP-API", "methods v01", "AGIS v01")
OTHERS = ("A2A 1.0", "JSON Schema 2020-12", "OpenAPI 3.1")
"""Cited with the sections of their own, which are not listed."""


def _spaced(name: str) -> str:
    return GAP.join(re.escape(word) for word in name.split())


_OWN = re.compile(
    rf"\b({'|'.join(KINDS)}){GAP}({'|'.join(sorted({kind for kinds in KINDS.values() for kind in kinds}))})s?"
    rf"{GAP}({NUMBERS})",
    re.IGNORECASE,
)
_NAMED = "|".join(
    [*map(_spaced, DRAFTS), r"(?-i:AGTP-(?!URI\b)[A-Z]{3,}\b)", rf"RFC{GAP}[0-9]+", *map(_spaced, OTHERS)]
)
_DRAFT = re.compile(
    rf"\b({_NAMED})(?:{GAP}(?:and{GAP}(?:RFC{GAP})?[0-9]+{GAP})?(?:sections?|appendix|appendices){GAP}({NUMBERS}))?",
    re.IGNORECASE,
)
_RFC = re.compile(rf"\bRFC{GAP}([0-9]+)")
_THREAT = re.compile(r"\bT-([A-Z]{2})\b(?:-([0-9]+|[a-z][a-z0-9-]*))?")
_PROGRAMME = re.compile(r"(?<!AGIS-)\b(P[0-9]{1,2})\b(?!\.)")
_REQUIREMENT = re.compile(r"\b(AGTP|API|METH|AGIS|HAIDIP)-([0-9]+)\b")
_NUMBERED = re.compile(
    rf"\b(?:sections?|appendix|appendices|decisions?|invariants?|conflicts?|readings?){GAP}(?:[0-9]+(?:\.[0-9]+)*|[A-Z]\b)"
)
_SHORT = re.compile(
    # Each of them begins with one of these letters: to look at that first takes a quarter of the time.
    rf"(?=[acrsih§])(?:\bcore{GAP}[0-9]+\.[0-9]|\b(?:core{GAP}v08|AGTP-[A-Z]{{3,}}|RFC{GAP}[0-9]+|companion|security){GAP}[0-9]+"
    rf"|(?<![\w-])(?:API|AGIS|HAIDIP){GAP}[0-9]+\.[0-9]|\bcore{GAP}(?:section|appendix)s?\b"
    rf"|\bspec-conflicts?\b|\bcompanion-specs?\b|\bissue{GAP}[0-9]+|§)",
    re.IGNORECASE,
)
_FILE = re.compile(r"(?<![\w*{}/.-])([\w/-]+\.(?:md|rst|tsv))\b")
_FIRST_WORD = re2.compile(
    rf"(?i)\b(?:{'|'.join(KINDS)}|core|AGTP|API|AGIS|METH|HAIDIP|RFC|A2A|JSON|OpenAPI|T-|P[0-9]"
    r"|section|append|decision|invariant|conflict|reading|companion-spec|issue)|§"
)
"""
What each citation begins with, but names of files. RE2 looks for all of these in the time that Python takes for a
tenth of one of the patterns above, so those are tried at these places alone.
"""
_ANCHOR = re.compile(r"^\.\. _(.+):$", re.MULTILINE)
_CELL = re.compile(r"^   \* - (.+)$", re.MULTILINE)


@cache
def anchors() -> frozenset[str]:
    """What ``docs/design`` can be cited by, as written there."""
    return frozenset(anchor for file in DESIGN.glob("*.rst") for anchor in _ANCHOR.findall(file.read_text()))


@cache
def first_cells(file: str) -> tuple[str, ...]:
    """The first column of every table of a page and of those that continue it, as ``drafts-api.rst`` does."""
    return tuple(_CELL.findall(_read_pages(file)))


@cache
def _read_pages(file: str) -> str:
    name = Path(file).stem
    return "\n".join(page.read_text() for page in [DESIGN / file, *sorted(DESIGN.glob(f"{name}-*.rst"))])


@cache
def sections(draft: str) -> frozenset[str]:
    """The sections that ``drafts.rst`` lists for a draft; of companion drafts those in the last column."""
    text = _read_pages("drafts.rst")
    if draft in DRAFTS:
        part = text.partition(f".. _draft-{draft.lower().replace(' ', '-')}:")[2].partition(".. _draft-")[0]
        return frozenset(_CELL.findall(part.partition("\nCompanion drafts")[0]))
    row = text.partition(f"   * - {draft}\n")[2].partition("   * - ")[0]
    return frozenset(re.findall(NUMBER, row.rpartition("     - ")[2]))


@cache
def requirements() -> frozenset[str]:
    """The ids of the table of requirements."""
    return frozenset(line.partition("\t")[0] for line in (ROOT / "tests" / "REQUIREMENTS.tsv").read_text().splitlines())


@cache
def threats() -> dict[str, list[range]]:
    """For each family of threats the numbers that it has; none for families whose ids are words."""
    found: dict[str, list[range]] = {}
    for cell in first_cells("security.rst"):
        if match := re.fullmatch(r"T-([A-Z]{2})(?:-([0-9]+)(?: to ([0-9]+))?)?", cell):
            numbers = found.setdefault(match[1], [])
            if match[2]:
                numbers.append(range(int(match[2]), int(match[3] or match[2]) + 1))
    return found


@cache
def files() -> frozenset[str]:
    """Every text of the tree, by its path and by its name alone."""
    found = [path.relative_to(ROOT) for path in texts()] + [Path("tests/REQUIREMENTS.tsv")]
    found += [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.rst")]
    return frozenset(str(path) for path in found) | frozenset(path.name for path in found)


@cache
def texts() -> list[Path]:
    """Every file whose citations must resolve."""
    rooms = [ROOT / name for name in ("agtphost", "tests", "docs", "twisted", "etc")]
    found = [path for room in rooms for path in room.rglob("*") if path.suffix in SUFFIXES]
    found += [path for path in ROOT.glob("*") if path.suffix in SUFFIXES]
    return sorted(path for path in found if path != Path(__file__).resolve() and "_build" not in path.parts)


def prose(path: Path) -> str:
    """What a file tells its reader: all of a text, docstrings and comments of a module."""
    text = path.read_text()
    if path.suffix != ".py":
        return text if path.suffix in (".rst", ".md") else ""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(text)) if isinstance(node, owners)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join([*found, *(token.string for token in tokens if token.type == tokenize.COMMENT)])


def _numbers(text: str) -> list[str]:
    return re.findall(NUMBER, text)


def _own(match: re.Match[str]) -> Iterator[str]:
    text, kind = match[1].lower(), match[2].lower()
    for number in _numbers(match[3]):
        if kind not in KINDS[text] or f"{text}-{kind}-{number}" not in anchors():
            yield f"{text} {kind} {number}"


def _draft(match: re.Match[str]) -> Iterator[str]:
    name = re.sub(GAP, " ", match[1])
    known = {known.lower(): known for known in (*DRAFTS, *OTHERS)}.get(name.lower(), name)
    if known not in first_cells("drafts.rst"):
        yield f"{name}: no such document"
    elif match[2] and not known.startswith(("RFC", *OTHERS)):
        yield from (f"{known} section {each}" for each in _numbers(match[2]) if each not in sections(known))


def _threat(match: re.Match[str]) -> Iterator[str]:
    family, number = match[1], match[2] or ""
    ranges = threats().get(family)
    if ranges is None:
        yield f"T-{family}"
    elif number and not (_numbered(int(number), ranges) if number.isdigit() else _is_case(match[0])):
        yield match[0]


def _numbered(number: int, ranges: list[range]) -> bool:
    return any(number in each for each in ranges)


def _is_case(start: str) -> bool:
    return any(case.id.startswith(start) for case in CASES)


def faults(text: str, told: str | None = None) -> list[str]:
    """
    What of the citations in ``text`` leads nowhere.

    :param told: the part of it that may name files; None: all.
    """
    found: list[str] = []
    resolved: list[tuple[int, int]] = []
    places = [match.start() for match in _FIRST_WORD.finditer(text)]
    for pattern, resolve in ((_OWN, _own), (_DRAFT, _draft), (_THREAT, _threat)):
        for match in _matches(pattern, text, places):
            resolved.append(match.span())
            found += resolve(match)
    rfcs = [f"RFC {match[1]}" for match in _matches(_RFC, text, places)]
    found += [rfc for rfc in rfcs if rfc not in first_cells("drafts.rst")]
    found += [m[1] for m in _matches(_PROGRAMME, text, places) if m[1] not in first_cells("security.rst")]
    found += [m[0] for m in _matches(_REQUIREMENT, text, places) if m[0] not in requirements()]
    numbered = [m for m in _matches(_NUMBERED, text, places) if not _within(m.span(), resolved)]
    found += [f"{m[0]}: of which text?" for m in numbered]
    found += [f"{m[0]}: not a form of citation" for m in _matches(_SHORT, text, places)]
    names = [name for name in file_names(text if told is None else told) if not _placeholder(name)]
    return found + [f"{name}: not in the tree" for name in names if name not in files()]


def _matches(pattern: re.Pattern[str], text: str, places: Iterable[int]) -> Iterator[re.Match[str]]:
    """Yield what ``pattern.finditer`` would, where each match begins at one of these places."""
    end = 0
    for place in places:
        if place >= end and (match := pattern.match(text, place)):
            end = match.end()
            yield match


def file_names(text: str) -> list[str]:
    """Return the names of texts in a text; only lines with such a suffix are looked at."""
    suffixes = [suffix for suffix in (".md", ".rst", ".tsv") if suffix in text]
    lines = text.splitlines() if suffixes else []
    return [name for line in lines if any(each in line for each in suffixes) for name in _FILE.findall(line)]


def faults_of(path: Path) -> list[str]:
    """Of a file; what is prose in it is only looked for where it may name a file that is not there."""
    text = path.read_text()
    unknown = any(name not in files() for name in file_names(text))
    return faults(text, prose(path) if unknown else "")


def _placeholder(name: str) -> bool:
    """Such as ``docs/changes/TOPIC.rst``."""
    return "/" in name and Path(name).stem.isupper()


def _within(span: tuple[int, int], others: list[tuple[int, int]]) -> bool:
    return any(start <= span[0] and span[1] <= end for start, end in others)


def test_every_citation_leads_somewhere() -> None:
    """In the whole tree: package, tests, docs, samples and README."""
    found = {str(path.relative_to(ROOT)): faulty for path in texts() if (faulty := faults_of(path))}
    assert found == {}, "\n".join(f"{path}: {each}" for path, faulty in found.items() for each in faulty)


def test_a_file_that_is_not_there_is_noticed_where_it_is_told(tmp_path: Path) -> None:
    """The control: in a docstring and in a comment; a name in the code itself is none of a reader's."""
    module = tmp_path / "module.py"
    module.write_text('"""As docs/nowhere.rst says."""\n\n# See nothing.md.\nNAME = "other.md"\n')
    assert faults_of(module) == ["docs/nowhere.rst: not in the tree", "nothing.md: not in the tree"]


def test_there_is_something_to_find() -> None:
    """The control of the walk: it meets citations of every kind, in hundreds."""
    whole = "\n".join(path.read_text() for path in texts())
    places = [match.start() for match in _FIRST_WORD.finditer(whole)]
    own, drafts = [*_matches(_OWN, whole, places)], [*_matches(_DRAFT, whole, places)]
    kinds = {f"{match[1].lower()} {match[2].lower()}" for match in own}
    assert kinds >= {f"{text} {kind}" for text, kinds in KINDS.items() for kind in kinds}
    cited = {re.sub(GAP, " ", match[1]).lower() for match in drafts if match[2]}
    assert cited >= {draft.lower() for draft in DRAFTS}
    assert len(own) > 200
    assert len([*_matches(_THREAT, whole, places)]) > 200
    assert len(drafts) > 400


@each_row(
    "right",
    [
        "design decisions 2, 5 and 14",
        "Companion sections 5.1 to 5.4",
        "companion conflicts 2a, 2b",
        "security invariants 1 to 4; security section\n    # 2.2",
        "adapters rules G3 and G5, adapters section 1.1",
        "Spec reading 42, interface section 1",
        "core v08 sections 6.3 and 7.2.14, core v08 appendix D, AGTP-API section 10.1.4.1",
        "methods v01 section 5.7, AGIS v01 appendix C, AGTP-TRUST section 3.6",
        "RFC 9110 section 5.6.2, A2A 1.0 section 5.4",
        "T-ID-30, T-MC-1 to 60, T-WF, P16, AGTP-012, API-097",
        "docs/design/security.rst, threats.rst",
    ],
)
def test_right_ones_are_found(right: str) -> None:
    """Several of a kind, in any place of a sentence and across lines."""
    assert faults(right) == []


@each_row(
    "wrong",
    [
        "design decision 99",
        "design decisions 2 and 99",
        "design section 4",
        "interface section 9",
        "companion section 6.9",
        "companion\n    # section 6.9",
        "companion conflict 2c",
        "security section 2.9",
        "security invariant 20",
        "invariant 1",
        "adapters rule G99",
        "adapters section 7",
        "spec reading 999",
        "spec-conflicts 42",
        "companion 5.2",
        "security 2.2",
        "core v08 section 7.2.99",
        "core v08 sections 7.2.14 and 99",
        "core v07 section 7",
        "core section 7.1",
        "core 5.4.1",
        "core v08 7.2.9",
        "AGTP-API section 10.99",
        "AGTP-API 10.1",
        "API 10.1",
        "core v08 appendices D and Q",
        "methods v01 section 5.99",
        "AGIS v01 appendix Q",
        "AGTP-NOWHERE section 3",
        "AGTP-TRUST section 99",
        "some other text, section 3",
        "RFC 9999",
        "RFC 9110 5.5",
        "T-ZZ-1",
        "T-ZZ",
        "T-ID-99",
        "T-WF-no-such-case",
        "P99",
        "AGTP-999",
        "METH-12",
        "issue 3",
        "§ 5",
        "design.md",
        "docs/design/nowhere.rst",
    ],
)
def test_wrong_ones_are_noticed(wrong: str) -> None:
    """The control: an unknown number, an unknown text, another form, and a file that is not there."""
    assert faults(f"Something that holds ({wrong}); and more.")
