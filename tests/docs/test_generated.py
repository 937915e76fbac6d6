"""The pages that ``docs/generate.py`` writes are current and whole, and their examples are read."""

from __future__ import annotations

import ast
import datetime
import functools
import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import KeySet, OKPKey

from agtphost import __version__
from agtphost.config import examine, load_profile
from agtphost.config.profiles import Profiles
from agtphost.vocabulary.reasons import Reason
from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REMEDY = "run: python docs/generate.py"


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GENERATE = _generator()
EXAMPLES: Mapping[str, str] = GENERATE.examples((DOCS / "examples.toml").read_text())


@functools.cache
def section_tables() -> list[Any]:
    """Return every section of the configuration with its keys."""
    return [*GENERATE.tables(), *GENERATE.tables(Profiles)]


def test_the_configuration_page_is_current() -> None:
    """It is what the classes and the examples say now."""
    assert (DOCS / "configuration.rst").read_text() == GENERATE.configuration(), REMEDY


def test_the_table_of_the_filter_language_is_current() -> None:
    """It is what the parser takes."""
    page = (DOCS / "audit-search.rst").read_text()
    assert page == GENERATE.filter_fields(page) and "``status:4xx``" in page, REMEDY


def test_the_table_of_the_fifty_is_current() -> None:
    """It is what the rows say."""
    page = (DOCS / "standard-methods.rst").read_text()
    assert page == GENERATE.standard_methods(page), REMEDY


def test_the_page_of_reasons_is_current() -> None:
    """It has a row for each, with what helps."""
    page = (DOCS / "reasons.rst").read_text()
    assert page == GENERATE.reasons(), REMEDY
    assert page.count("\n   * - ``") == len(Reason)


def test_the_changelog_is_current() -> None:
    """Every fragment is in it, under its kind."""
    present = (ROOT / "CHANGELOG.rst").read_text()
    assert present == GENERATE.changelog(present), REMEDY


def test_the_changelog_is_short() -> None:
    """At most 130 lines a version, of at most 120 characters, for people who upgrade; no kind is unknown."""
    text = (ROOT / "CHANGELOG.rst").read_text()
    assert max(map(len, text.splitlines())) <= 120
    assert max(version.count("\n") for version in text.split(GENERATE.RELEASED)) <= 130
    assert set(re.findall(r"^(.+)\n~+$", text, re.MULTILINE)) <= set(GENERATE.CHANGE_KINDS)
    (latest,) = re.findall(r"^(\d+\.\d+\.\d+)\n-+$", text.partition(GENERATE.RELEASED)[2], re.MULTILINE)[:1]
    assert latest == __version__, "the newest released version is that of the package"


FRAGMENTS = {
    "Fixed: A reload keeps the log file.\n": ("Fixed", "A reload keeps the log file."),
    "Added: One\ntwo\nthree\n": ("Added", "One\ntwo\nthree"),
}
NO_FRAGMENTS = (
    "A reload: keeps it.",
    "fixed: It.",
    "Fixed:",
    "Fixed: 1\n2\n3\n4",
    "Fixed: 1\n\n2",
    "Title\n=====\n\nIt.",
)


def test_a_fragment_has_a_kind_and_at_most_three_lines() -> None:
    """All that are here; others are named, with what to write."""
    GENERATE.read_fragments()
    for text, expected in FRAGMENTS.items():
        assert GENERATE.parse_fragment("x.rst", text) == expected
    for text in NO_FRAGMENTS:
        with pytest.raises(ValueError, match=r"docs/changes/x\.rst"):
            GENERATE.parse_fragment("x.rst", text)


def test_changes_are_listed_by_kind() -> None:
    """In one order, and nothing for a kind without any."""
    entries = [("Fixed", "One\nline"), ("Security", "Two"), ("Fixed", "Three")]
    assert GENERATE.render_entries(entries) == (
        "\nSecurity\n~~~~~~~~\n\n* Two\n\nFixed\n~~~~~\n\n* One\n  line\n* Three\n"
    )


def test_a_release_moves_what_was_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets the version's heading, above the versions before; without changes there is nothing to release."""
    mark = GENERATE.RELEASED
    monkeypatch.setattr(GENERATE, "read_fragments", lambda: [("Fixed", "One")])
    present = GENERATE.changelog(f"old\n{mark}\n0.2.0\n-----\n\nThe first.\n")
    assert present.index("Not released yet") < present.index("* One") < present.index(mark) < present.index("0.2.0")
    released = GENERATE.release(present, "0.3.0")
    assert "Not released yet" not in released
    assert released.index(mark) < released.index("0.3.0\n-----\n") < released.index("* One") < released.index("0.2.0")
    monkeypatch.setattr(GENERATE, "read_fragments", list)
    assert GENERATE.changelog(released) == released
    with pytest.raises(ValueError, match="nothing"):
        GENERATE.release(released, "0.4.0")


def test_the_table_of_extras_is_current() -> None:
    """It is what pyproject.toml declares, with the comment above each; an extra without one is refused."""
    page, project = (DOCS / "supply-chain.rst").read_text(), (ROOT / "pyproject.toml").read_text()
    assert page == GENERATE.extras(page, project), REMEDY
    names = tomllib.loads(project)["project"]["optional-dependencies"]
    assert len(names) > 15 and all(f"   * - ``{name}``\n" in page for name in names)
    with pytest.raises(ValueError, match="planted"):
        GENERATE.extras(page, project.replace("\n[project.scripts]", 'planted = ["x"]\n\n[project.scripts]'))


def test_the_import_table_is_current() -> None:
    """Its last column is that of the layering test."""
    page = (DOCS / "architecture.rst").read_text()
    assert page == GENERATE.architecture(page), REMEDY
    assert GENERATE.architecture(page.replace("     - identity, wire\n", "     - wire\n")) == page


def test_places_of_publication_are_current() -> None:
    """One setting fills pyproject.toml and SECURITY.md; another setting is another text (the control)."""
    project = (ROOT / "pyproject.toml").read_text()
    filled = project.replace("agtphost.example", "agtphost.org").replace("The agtphost authors", "Ada")
    for name in ("pyproject.toml", "SECURITY.md"):
        text = (ROOT / name).read_text()
        assert text == GENERATE.publication(text, project), REMEDY
        assert ".example" in text and "agtphost.org" in GENERATE.publication(text, filled)
    metadata = tomllib.loads(GENERATE.publication(filled, filled))["project"]
    assert metadata["authors"] == [{"name": "Ada", "email": "maintainers@agtphost.org"}]
    assert set(metadata["urls"]) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(".example" not in url for url in metadata["urls"].values())


def test_what_was_released_stays() -> None:
    """The generator writes above the mark alone."""
    mark = GENERATE.RELEASED
    released = "\n0.1.0\n-----\n\nThe first.\n"
    assert GENERATE.changelog(f"old\n{mark}{released}").endswith(f"\n{mark}{released}")


def declared(source: str, known: set[str]) -> Iterator[tuple[str, str]]:
    """Class and name of each field of a configuration section in a module's text; ``known`` are the bases so far."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and known & {ast.unparse(base) for base in node.bases}:
            known.add(node.name)
            for part in node.body:
                # What begins with an underscore is nothing that a file can say.
                if isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_"):
                    yield node.name, ast.unparse(part.target).rstrip("_")


def undocumented(page: str) -> list[str]:
    """Fields in the text of agtphost/config that a page has no entry for: read without the generator."""
    bases, found = {"Section"}, set()
    sources = [file.read_text() for file in sorted((ROOT / "agtphost" / "config").glob("*.py"))]
    for source in sources * 2:  # A base may stand in a later module.
        found.update(declared(source, bases))
    entries = set(re.findall(r"^``([a-z0-9_]+)``: ", page, flags=re.MULTILINE))
    headers = set(re.findall(r"^\[+([a-zA-Z0-9_.]+)\]+$", page, flags=re.MULTILINE))
    parts = {part for header in headers for part in header.split(".")}
    return sorted(f"{kind}.{name}" for kind, name in found if name not in entries | parts | {"file"})


def test_no_key_is_missing() -> None:
    """Each field of each section class, found in the text of the package, has an entry or a section."""
    page = (DOCS / "configuration.rst").read_text()
    assert undocumented(page) == []
    assert sum(len(table.keys) for table in section_tables()) > 250


def test_a_missing_key_would_be_noticed() -> None:
    """The control."""
    page = (DOCS / "configuration.rst").read_text().replace("``drain_timeout``: ", "")
    assert undocumented(page) == ["Limits.drain_timeout"]


def test_every_key_says_what_it_means() -> None:
    """A type, a sentence that ends, and for each section what it is for."""
    for table in section_tables():
        assert table.meaning.endswith("."), table
        for key in table.keys:
            assert key.type, (table.path, key.name)
            assert key.required or key.meaning.endswith((".", ")")), (table.path, key.name, key.meaning)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples name: real certificates and keys where they are looked into."""
    place = tmp_path_factory.mktemp("examples")
    for name in ("agents", "partners", "endpoints", "documents", "tls", "keys", "catalog", "mcp/files"):
        (place / name).mkdir(parents=True)
    for name in ("recipes.toml", "catalog/methods-8.json", "tls/agents.crl"):
        (place / name).touch()
    for name in ("host", "agents-ca", "north-ca", "library"):
        private = Ed25519PrivateKey.generate()
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder(subject, subject, private.public_key(), x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + datetime.timedelta(days=1))
            .sign(private, None)
        )
        (place / "tls" / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        encoded = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (place / "tls" / f"{name}.key").write_bytes(encoded)
        (place / "tls" / f"{name}.key").chmod(0o600)
    for name in ("acme", "witness", "policy", "south"):
        public = Ed25519PrivateKey.generate().public_key()
        encoded = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (place / "keys" / f"{name}.pub").write_bytes(encoded)
    keys = KeySet([OKPKey.generate_key("Ed25519", {"kid": "k"})])
    for name in ("policy.example.com.json", "id.example.com.json"):
        (place / "keys" / name).write_text(json.dumps(keys.as_dict(private=False)))
    return place


def test_every_section_has_an_example() -> None:
    """And no example is of a section that is not there."""
    assert sorted(EXAMPLES) == sorted(table.path for table in section_tables())


@each_row("section", [name for name in EXAMPLES if name != "profile"])
def test_an_example_loads(section: str, folder: Path) -> None:
    """The host's own loader finds nothing wrong with it, and something in the section is set by it."""
    text = EXAMPLES[section]
    file = folder / "host.toml"
    file.write_text(text if "[host]" in text else f"{GENERATE.MINIMAL}\n{text}")
    reading = examine(
        file,
        {"PATH": "/usr/bin", **dict.fromkeys(re.findall(r"env:([A-Z_]+)", text), "a-secret-of-32-characters-at-least")},
    )
    assert reading.problems == ()
    held: list[object] = [reading.config]
    for part in section.split("."):
        values = [getattr(each, part) for each in held if part in type(each).model_fields]
        held = []
        for value in values:
            held += value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else [value]
    given = {name for each in held for name in each.model_fields_set}  # type: ignore[attr-defined]
    assert given


def test_the_example_of_a_profile_loads(tmp_path: Path) -> None:
    """By the function that the command reads its own file with."""
    (tmp_path / "agtphost").mkdir()
    (tmp_path / "agtphost" / "config.toml").write_text(EXAMPLES["profile"])
    assert load_profile("south", {"XDG_CONFIG_HOME": str(tmp_path)}).uri == "agtp://south.example.com"


@each_row("section", [name for name in EXAMPLES if name not in ("profile", "notify", "feature")])
def test_a_misspelt_key_of_an_example_is_refused(section: str, folder: Path) -> None:
    """
    The control: it is read as a whole. (``[notify]`` holds names of the operator's choice alone, and another package
    checks ``[feature.NAME]``.)
    """
    text = EXAMPLES[section]
    key = re.findall(r"^([a-z_]+) = ", text, flags=re.MULTILINE)
    file = folder / "host.toml"
    wrong = re.sub(rf"^{key[-1]} = ", f"{key[-1]}x = ", text, flags=re.MULTILINE)
    file.write_text(wrong if "[host]" in text else f"{GENERATE.MINIMAL}\n{wrong}")
    environ = {
        "PATH": "/usr/bin",
        **dict.fromkeys(re.findall(r"env:([A-Z_]+)", text), "a-secret-of-32-characters-at-least"),
    }
    assert any(f"{key[-1]}x" in problem.message for problem in examine(file, environ).problems)


LONG_PAGES = {"configuration", "endpoint-file", "limits", "reasons", "threats"}
"""Pages that are tables, generated or compared with the tree line by line."""


def test_no_other_page_has_more_than_400_lines() -> None:
    """A longer one has several subjects."""
    lengths = {path.stem: len(path.read_text().splitlines()) for path in DOCS.rglob("*.rst")}
    assert {name for name, length in lengths.items() if length > 400} == LONG_PAGES
