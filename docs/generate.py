"""
The pages that follow from something else; ``python docs/generate.py`` writes them.

- ``docs/configuration.rst``: every key of ``host.toml`` and of the command's own file, from the classes of
  :mod:`agtphost.config`
- ``docs/endpoint-file.rst``: every member of an endpoint's and a recipe's file, by ``docs/endpoint_reference.py``
- ``docs/reasons.rst``: every reason that the host refuses for, from :mod:`agtphost.vocabulary.reasons`
- ``docs/standard-methods.rst``: the table of the fifty, from :mod:`agtphost.methods.standard.table`; the rest by hand
- ``docs/architecture.rst``: what each package may import, from ``tests/test_layering.py``; the rest is written by hand
- ``docs/audit-search.rst``: the fields of the filter language, from :mod:`agtphost.audit.filters`; the rest by hand
- ``docs/supply-chain.rst``: the table of extras, from ``pyproject.toml``; the rest by hand
- ``pyproject.toml`` and ``SECURITY.md``: author and addresses, from ``[tool.agtphost.publication]``
- ``CHANGELOG.rst``: what is not released yet, from the fragments in ``docs/changes``; ``--release VERSION`` moves it
  below that version

``tests/docs/test_generated.py`` holds them to what is written here.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import sys
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic_core import PydanticUndefined

from agtphost.audit.filters import FIELDS
from agtphost.config import reloadable_keys, values
from agtphost.config.profiles import Profiles
from agtphost.config.secret import Secret
from agtphost.config.sections import Config
from agtphost.config.values import Section
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.peer import Assurance
from agtphost.methods.standard.table import STANDARD
from agtphost.vocabulary.reasons import Reason

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

MINIMAL = '[host]\nserver_id = "agents.example.com"\nprofile = "development"\n'
"""What stands before every example but those that have ``[host]`` themselves."""

INTRODUCTION = """\
.. Written by docs/generate.py from agtphost/config and docs/examples.toml: mend those.

host.toml: every section and key
================================

``agtp check host.toml`` reports everything that is wrong with a file, with its line and what to do; a key that is not
listed here is an error. Relative paths are relative to the file. Times are in seconds and sizes in octets,
unless the key says otherwise. *default* gives the value of a key that is left out. A running host takes every key on
``agtp reload``, except those marked *restart*. The last section belongs to another file,
``~/.config/agtphost/config.toml``: the hosts elsewhere that ``--profile NAME`` of many commands names.

The tests load every example. Those without ``[host]`` begin with these lines:

.. code-block:: toml

"""

KINDS: Mapping[Any, str] = {
    Any: "value of any kind",
    values.FilePath: "path",
    values.StateDirectory: "path",
    values.Line: "one line of text",
    values.Token: "text without spaces",
    values.Method: "method name",
    values.Scope: "scope",
    values.Fingerprint: "key fingerprint (64 hexadecimal digits)",
    values.CanonicalAgentID: "Agent-ID (64 hexadecimal digits)",
    values.Network: "address range",
    values.MinAssurance: " or ".join(f'``"{level.label}"``' for level in Assurance),
    values.InlineOrSecret: "text, or a secret: ``${VAR}``, ``env:NAME``, ``file:PATH``, ``credential:NAME``",
    values.HeaderValue: "text, or a secret: ``${VAR}``, ``env:NAME``, ``file:PATH``, ``credential:NAME``",
    values.SecretReference: "secret: ``${VAR}``, ``env:NAME``, ``file:PATH`` or ``credential:NAME``",
    values.Password: "secret: ``${VAR}``, ``env:NAME``, ``file:PATH`` or ``credential:NAME``",
    datetime: "time, or a date (UTC where it says nothing else)",
    str: "text",
    bool: "``true`` or ``false``",
    int: "whole number",
    float: "number",
    VerifyingKey: "public key in base64url, or ``file:PATH``",
}
"""How types are called; what is not here is taken apart."""

SAID: Mapping[tuple[str, str], str] = {
    ("methods", "standard"): '``"*"``, ``"reading"``, or list of method names',
    ("policies.methods", "allow"): '``"*"``, or list of method names',
    ("policies.methods", "legacy"): '``"NONE"``, ``"*"``, or list of HTTP verbs',
    ("merchant.platform", "jwks"): "path",
    **{("methods.price", key): "amounts in budget units" for key in ("expected", "min", "max")},
    ("a2a.front.agent", "input"): "table",
    ("http.client", "token"): "secret: ``${VAR}``, ``env:NAME``, ``file:PATH`` or ``credential:NAME``",
}
"""Types that pydantic itself does not know, as a validator makes them."""


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    type: str
    default: str
    """As it would stand in the file; empty where there is none."""

    required: bool
    meaning: str


@dataclass(frozen=True)
class Table:
    """One section of the file."""

    path: str
    """Dotted, such as ``mcp.server.tools``."""

    header: str
    """As it stands in the file, such as ``[mcp.server.tools.NAME]``."""

    meaning: str
    keys: tuple[Key, ...]


def attribute_docs(kind: type[Section]) -> dict[str, str]:
    """The texts below a class's attributes, those of its bases included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not issubclass(each, Section) or each is Section:
            continue
        module = ast.parse(inspect.getsource(sys.modules[each.__module__]))
        (node,) = [part for part in module.body if isinstance(part, ast.ClassDef) and part.name == each.__name__]
        for part, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                text = (
                    after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
                )
                found[part.target.id] = " ".join(str(text).split())
    return found


def sections_of(hint: Any) -> tuple[type[Section] | None, str]:
    """The section that a field holds, if it does, and how: once, in a list, or by names of the operator's choice."""
    if isinstance(hint, type) and issubclass(hint, Section):
        return hint, "one"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return sections_of(arguments[0])
    for argument in arguments:
        kind, _ = sections_of(argument)
        if kind is not None:
            return kind, "list" if origin is tuple else "one" if origin in (types.UnionType, typing.Union) else "table"
    return None, ""


def tables(kind: type[Section] = Config, path: str = "") -> Iterator[Table]:
    """Every section, in the order of the classes; those that only hold others are left out."""
    below = []
    docs, hints = attribute_docs(kind), typing.get_type_hints(kind, include_extras=True)
    keys = []
    for name, field in kind.model_fields.items():
        if field.exclude:
            continue
        inner, how = sections_of(hints[name])
        if inner is not None:
            below.append((f"{path}.{name}" if path else name, inner, how))
            continue
        meaning = without_none(docs[name])
        required = field.is_required() or re.search(r"\bRequired\b(?!, unless)", meaning) is not None
        meaning = re.sub(r" ?\bRequired\.$", "", meaning)
        keys.append(
            Key(
                name=field.alias or name,
                type=SAID.get((path, name)) or typed(hints[name]),
                default=""
                if required or field.is_required()
                else written(field.get_default(call_default_factory=True)),
                required=required,
                meaning=meaning,
            )
        )
    if keys or kind.model_config.get("extra") == "allow":
        text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
        text = re.sub(r"^(One |An entry of |The section )?``\[[^`]*``( or ``[^`]*``)?[:;.,]? *", "", text)
        yield Table(path, "", text[:1].upper() + text[1:], tuple(keys))
    for where, inner, how in below:
        for table in tables(inner, where):
            if table.path == where:
                header = {"one": f"[{where}]", "list": f"[[{where}]]", "table": f"[{where}.NAME]"}[how]
                table = Table(table.path, header, table.meaning, table.keys)
            elif how == "table":
                table = Table(table.path, table.header.replace(where, f"{where}.NAME", 1), table.meaning, table.keys)
            yield table


def without_none(text: str) -> str:
    """TOML has no None: a key without a value is one that is not set."""
    text = re.sub(r"(^|[.] )None\b:?", r"\1Not set:", text)
    return re.sub(r"\bNone\b:?", "not set:", text)


def typed(hint: Any) -> str:
    """A type in words."""
    try:
        if hint in KINDS:
            return KINDS[hint]
    except TypeError:  # What cannot be hashed is nothing that has a word.
        pass
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(f'``"{value}"``' for value in arguments)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(typed(each) for each in arguments if each is not type(None))
    if origin is tuple:
        return f"list: {typed(arguments[0])}"
    if origin is Annotated:
        return typed(arguments[0]) + bounds(arguments[1:])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"table of names: {typed(arguments[1])}"
    if hint is Path:
        return "path"
    raise TypeError(f"no words for {hint!r}: add them to KINDS or SAID")


def bounds(metadata: tuple[Any, ...]) -> str:
    """What pydantic's constraints say, such as ``, 1 to 1024``."""
    given = {}
    for each in metadata:
        for constraint in getattr(each, "metadata", [each]):
            for name in ("gt", "ge", "lt", "le"):
                if getattr(constraint, name, None) is not None:
                    given[name] = getattr(constraint, name)
    low, high = (f"{given.get(name, 0):_}".replace("_", " ") for name in ("ge", "le"))
    if "gt" in given:
        return f" above {given['gt']}, at most {high}"
    if "ge" in given and "le" in given:
        return f", {low} to {high}"
    return f", at least {low}" if "ge" in given else ""


def written(value: Any) -> str:
    """A default as it would stand in the file; empty where nothing would."""
    if value is None or value is PydanticUndefined or isinstance(value, Secret):
        return ""
    if isinstance(value, values._StateFile):
        return f'"{value}" below state_dir' if value else '"state"'
    if isinstance(value, Assurance):
        return json.dumps(value.label)
    if isinstance(value, Enum):
        return json.dumps(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{name} = {written(each)}" for name, each in value.items())
        return f"{{ {pairs} }}" if pairs else ""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(written(each) for each in value) + "]" if value else ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (int, float)):
        return str(value)
    return json.dumps(str(value)) if str(value) else ""


def examples(text: str) -> dict[str, str]:
    """
    ``docs/examples.toml``: a piece of host.toml for each section, below ``#: SECTION``.

    :raises ValueError: a section has two.
    """
    parts = re.split(r"^#: ([a-z0-9_.]+)\n", text, flags=re.MULTILINE)[1:]
    names = parts[::2]
    if len(set(names)) != len(names):
        raise ValueError("a section has two examples")
    return {name: piece.strip() + "\n" for name, piece in zip(names, parts[1::2], strict=True)}


def indented(text: str, by: str = "    ") -> str:
    return "".join(by + line if line.strip() else line for line in text.splitlines(keepends=True))


def configuration() -> str:
    """``docs/configuration.rst``."""
    shown = examples((DOCS / "examples.toml").read_text())
    out = [
        INTRODUCTION,
        indented(MINIMAL),
        "\n.. contents:: Sections\n   :local:\n   :depth: 1\n\n",
    ]
    for table in [*tables(), *tables(Profiles)]:
        out.append(f"\n.. _config-{table.path.replace('.', '-').replace('_', '-')}:\n\n")
        out.append(f"{table.header}\n{'-' * len(table.header)}\n\n")
        out.append(f"{table.meaning}\n\n")
        for key in table.keys:
            facts = "; ".join(
                [
                    key.type,
                    *["required"] * key.required,
                    *[f"default ``{key.default}``"] * bool(key.default),
                    *["*restart*"] * reloadable_keys.waits(table.path, key.name),
                ]
            )
            out.append(f"``{key.name}``: {facts}\n    {key.meaning or 'Required.'}\n\n")
        out.append(f".. code-block:: toml\n\n{indented(shown.pop(table.path, ''))}\n")
    if shown:
        raise ValueError(f"examples of no section: {', '.join(shown)}")
    return "".join(out).rstrip("\n") + "\n"


RELEASED = ".. Released versions follow: what stands above is written by docs/generate.py.\n"
UNRELEASED = "Not released yet"
CHANGE_KINDS = ("Security", "Changed", "Deprecated", "Removed", "Added", "Fixed")
"""What a fragment begins with, in the order of the changelog."""

MOST_LINES = 3
"""Of one fragment."""


def changelog(present: str) -> str:
    """
    Return ``CHANGELOG.rst``: the fragments, above the released versions.

    :param present: the file as it is; from :data:`RELEASED` on it is kept.
    :raises ValueError: a fragment has another form.
    """
    _, mark, released = present.partition(RELEASED)
    entries = read_fragments()
    out = ["Changes\n=======\n\nNotable changes for people who upgrade. What no release had before is not a change.\n"]
    if entries:
        out.append(f"\n{UNRELEASED}\n{'-' * len(UNRELEASED)}\n{render_entries(entries)}")
    return "".join(out) + "\n\n" + (mark + released if mark else RELEASED)


def read_fragments() -> list[tuple[str, str]]:
    """
    Return the kind and the text of each fragment in ``docs/changes``.

    :raises ValueError: a fragment has another form.
    """
    paths = sorted(path for path in (DOCS / "changes").glob("*.rst") if path.name != "README.rst")
    return [parse_fragment(path.name, path.read_text()) for path in paths]


def parse_fragment(name: str, text: str) -> tuple[str, str]:
    """
    Return kind and text of a fragment, such as ``Fixed: A reload keeps the log file.``

    :raises ValueError: it has no kind, or another number of lines than one to three.
    """
    kind, colon, said = text.strip().partition(": ")
    if not colon or kind not in CHANGE_KINDS:
        raise ValueError(f"docs/changes/{name} begins with no kind; write one of {', '.join(CHANGE_KINDS)}, and ': '")
    lines = said.splitlines()
    if len(lines) > MOST_LINES or not all(line.strip() for line in lines):
        raise ValueError(f"docs/changes/{name} has another form than one to {MOST_LINES} lines of text")
    return kind, said


def render_entries(entries: list[tuple[str, str]]) -> str:
    """Return a list for each kind that there is."""
    out = []
    for kind in CHANGE_KINDS:
        texts = [text.replace("\n", "\n  ") for each, text in entries if each == kind]
        if texts:
            out.append(f"\n{kind}\n{'~' * len(kind)}\n\n" + "".join(f"* {text}\n" for text in texts))
    return "".join(out)


def release(present: str, version: str) -> str:
    """
    Return ``CHANGELOG.rst`` with what is not released yet under the heading of a version.

    :param present: the file as :func:`changelog` wrote it.
    """
    head, mark, released = present.partition(RELEASED)
    before, _, entries = head.partition(f"\n{UNRELEASED}\n{'-' * len(UNRELEASED)}\n")
    if not mark or not entries.strip():
        raise ValueError("CHANGELOG.rst has nothing that is not released yet")
    section = f"\n{version}\n{'-' * len(version)}\n{entries.rstrip()}\n"
    return f"{before.rstrip()}\n\n\n{mark}{section}{released}"


REASONS = """\
.. Written by docs/generate.py from agtphost/vocabulary/reasons.py: mend that.

Why the host refuses
====================

A refusal has a status, and a *reason*: a token that stays the same where sentences change. Programs go by it; it is in
the answer, under ``reason``, and in the record. ``explanation`` and ``remedy`` next to it are for people, and often say
more than here. Where a reason has several statuses the first is the usual one. Endpoints have errors of their own
besides, which their contracts declare, and an operator's plugins and other hosts may use other tokens.

.. list-table::
   :header-rows: 1
   :widths: 22 8 34 26 10

   * - Reason
     - Status
     - What it means
     - What to do
     - From
"""


def reasons() -> str:
    """``docs/reasons.rst``."""

    def text(said: str) -> str:
        return re.sub("`([^`]+)`", r"``\1``", said.replace("*", r"\*"))

    rows = [
        f"""\
   * - ``{reason}``
     - {", ".join(str(int(status)) for status in reason.statuses)}
     - {text(reason.meaning)}
     - {text(reason.remedy) or "What ``remedy`` says."}
     - {reason.source}
"""
        for reason in sorted(Reason)
    ]
    return REASONS + "".join(rows)


def architecture(page: str) -> str:
    """``docs/architecture.rst`` with the last column of its table as the layering test has it; all else is kept."""
    layering: dict[str, Any] = runpy.run_path(str(ROOT / "tests" / "test_layering.py"))
    allowed, everyone = layering["MAY_IMPORT"], layering["EVERYONE"]

    def row(found: re.Match[str]) -> str:
        name = found.group(2)
        said = ", ".join(sorted(allowed[name] - everyone)) or "nothing"
        return found.group(1) + ("nothing, not even these" if name == "vocabulary" else said)

    return re.sub(r"(   \* - ``(\w+)``\n     - .+\n     - ).+", row, page)


BEGIN, END = ".. begin of the fifty\n", ".. end of the fifty\n"


def standard_methods(page: str) -> str:
    """``docs/standard-methods.rst`` with its table as the rows have it; all else is kept."""
    head = (
        "\n.. list-table::\n   :header-rows: 1\n\n   * - Method\n     - What is true afterwards\n"
        "     - Parameters, those that it needs first\n     - Changes\n\n"
    )
    rows = []
    for row in STANDARD.values():
        needed = [f"**{name}**" for name in row.required]
        more = [name for name in row.parameters if name not in row.required]
        scope = f"; takes ``{row.scope}``" if row.scope else ""
        rows.append(
            f"   * - {row.name}\n     - {row.outcome}\n     - {', '.join([*needed, *more])}\n"
            f"     - {'yes' if row.writes else 'no'}{scope}\n"
        )
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + head + "".join(rows) + "\n" + END + rest.partition(END)[2]


FIELDS_BEGIN, FIELDS_END = ".. begin of the fields\n", ".. end of the fields\n"


def filter_fields(page: str) -> str:
    """Return ``docs/audit-search.rst`` with the table of the filter language; all else is kept."""
    head = "\n.. list-table::\n   :header-rows: 1\n\n   * - Field\n     - Selects\n     - Values\n     - Example\n\n"
    rows = [
        f"   * - ``{field.name}``\n     - {field.meaning}\n     - {field.allowed}\n     - ``{field.example}``\n"
        for field in FIELDS.values()
    ]
    before, _, rest = page.partition(FIELDS_BEGIN)
    return before + FIELDS_BEGIN + head + "".join(rows) + "\n" + FIELDS_END + rest.partition(FIELDS_END)[2]


EXTRAS_BEGIN, EXTRAS_END = ".. begin of the extras\n", ".. end of the extras\n"


def extras(page: str, project: str) -> str:
    """
    Return ``docs/supply-chain.rst`` with its table of extras as ``pyproject.toml`` has them; all else is kept.

    :param project: the text of ``pyproject.toml``; the comment above an extra says what it is for.
    """
    declared = tomllib.loads(project)["project"]["optional-dependencies"]
    purposes: dict[str, str] = {}
    comment: list[str] = []
    for line in project.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0].splitlines():
        if not line:
            comment = []
        elif line.startswith("# "):
            comment.append(line[2:])
        elif (name := line.partition(" = ")[0]) in declared:
            purposes[name] = " ".join(comment)
            comment = []
    rows = []
    for name, requirements in declared.items():
        if not purposes[name]:
            raise ValueError(f"pyproject.toml has no comment above the extra {name}: say there what it is for")
        brought = ", ".join(re.split(r"[<>=]", each)[0] for each in requirements)
        purpose = re.sub("`([^`]+)`", r"``\1``", purposes[name])
        rows.append(f"   * - ``{name}``\n     - {purpose}\n     - {brought}\n")
    head = (
        "\n.. list-table::\n   :header-rows: 1\n   :widths: 12 48 40\n\n"
        "   * - Extra\n     - Needed for\n     - Brings\n"
    )
    before, _, rest = page.partition(EXTRAS_BEGIN)
    return before + EXTRAS_BEGIN + head + "".join(rows) + "\n" + EXTRAS_END + rest.partition(EXTRAS_END)[2]


PUBLICATION = re.compile(r"(begin of the publication.*\n)(?:.*\n)*?(.*end of the publication)")


def publication(text: str, project: str) -> str:
    """
    Return ``pyproject.toml`` or ``SECURITY.md`` with the places of ``[tool.agtphost.publication]``; all else is kept.

    :param project: the text of ``pyproject.toml``.
    """
    setting = tomllib.loads(project)["tool"]["agtphost"]["publication"]
    repository, author, mail = (setting[name] for name in ("repository", "author", "mail"))
    entries = f"""\
authors = [{{ name = {json.dumps(author)}, email = {json.dumps(mail)} }}]

[project.urls]
Homepage = "{repository}"
Documentation = "{setting["documentation"]}"
Source = "{repository}"
Issues = "{repository}/issues"
Changelog = "{repository}/blob/main/CHANGELOG.rst"
"""
    report = f"""\
Please report privately, not in a public issue or pull request: by mail to {setting["security"]}, or by the form
"Report a vulnerability" under the *Security* tab of the repository, which only its maintainers read.
"""
    inside = entries if "[project]" in text else report
    return PUBLICATION.sub(lambda found: found[1] + inside + found[2], text)


def main(arguments: list[str]) -> None:
    """
    Write every page anew.

    :param arguments: ``--release`` and a version: move what is not released yet below that version, and remove the
        fragments.
    """
    (DOCS / "configuration.rst").write_text(configuration())
    (DOCS / "reasons.rst").write_text(reasons())
    reference = runpy.run_path(str(DOCS / "endpoint_reference.py"))
    (DOCS / "endpoint-file.rst").write_text(reference["endpoint_file"]())
    drawn = DOCS / "architecture.rst"
    drawn.write_text(architecture(drawn.read_text()))
    listed = DOCS / "standard-methods.rst"
    listed.write_text(standard_methods(listed.read_text()))
    searching = DOCS / "audit-search.rst"
    searching.write_text(filter_fields(searching.read_text()))
    supply = DOCS / "supply-chain.rst"
    supply.write_text(extras(supply.read_text(), (ROOT / "pyproject.toml").read_text()))
    for name in ("pyproject.toml", "SECURITY.md"):
        path = ROOT / name
        path.write_text(publication(path.read_text(), (ROOT / "pyproject.toml").read_text()))
    log = ROOT / "CHANGELOG.rst"
    log.write_text(changelog(log.read_text() if log.exists() else ""))
    if arguments[:1] == ["--release"]:
        log.write_text(release(log.read_text(), arguments[1]))
        for path in (DOCS / "changes").glob("*.rst"):
            if path.name != "README.rst":
                path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
