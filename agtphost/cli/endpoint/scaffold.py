"""The files that ``agtp endpoint new`` writes: a declaration, a function, and a test that passes."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from pathlib import Path

from agtphost.contract import binding
from agtphost.contract.method_parameters import DEMANDED, PROCEDURE
from agtphost.vocabulary.catalog import CatalogEntry
from agtphost.vocabulary.paths import parse_template
from agtphost.vocabulary.tomltext import string_text as quoted

READS = frozenset({"retrieval", "analysis", "discovery", "notification"})
"""Categories whose methods change nothing, for methods that no draft describes."""


@dataclass(frozen=True, kw_only=True)
class EndpointPlan:
    """The plan of one endpoint's files."""

    method: str
    path: str
    function: str
    """The dotted name, such as ``handlers.orders.find``."""

    entry: CatalogEntry | None
    """The catalog's entry of the method; None for the operator's own method."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The function's parameters: those of the path and those that the method demands, or else ``text``."""
        named = tuple(dict.fromkeys((*parse_template(self.path).parameters, *DEMANDED.get(self.method, ()))))
        return named or ("text",)

    @property
    def module(self) -> str:
        """The dotted name of the module."""
        return self.function.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The name of the function in its module."""
        return self.function.rpartition(".")[2]

    @property
    def slug(self) -> str:
        """The stem of the names of the files."""
        return f"{self.module.rpartition('.')[2]}_{self.name}"

    @property
    def scopes(self) -> list[str]:
        """The scopes that every caller of the method needs, in addition to those of the endpoint."""
        demanded = binding.DEMANDED.get(self.method)
        return [] if demanded is None else [demanded]

    def fault(self) -> str:
        """Return why the files cannot be written; empty if they can."""
        words = (*self.function.split("."), *self.parameters)
        wrong = [word for word in words if not word.isidentifier() or keyword.iskeyword(word)]
        if wrong:
            return f"{wrong[0]!r} is not a Python identifier"
        return "" if self.module else f"{self.function!r} has no module"

    # The files

    def source(self) -> str:
        """Return the text of a new module."""
        literal = "Literal, TypedDict" if PROCEDURE in self.parameters else "TypedDict"
        return f'''"""{self.method} {self.path}"""

from __future__ import annotations

from typing import {literal}

from agtphost import EndpointError, endpoint


{self.definitions("Answer")}'''

    def definitions(self, answer: str) -> str:
        """
        Return the text of the function and of the class of its answers.

        :param answer: name of that class.
        """
        takes = ", ".join(f"{name}: {self._kind(name)}" for name in self.parameters)
        told = "\n".join(f"    :param {name}: describe the parameter here" for name in self.parameters)
        first = self.parameters[0]
        members = "\n".join(f"    {name}: str" for name in self.parameters)
        given = ", ".join(f'"{name}": {name}' for name in self.parameters)
        return f'''class {answer}(TypedDict):
    """The answer to callers: each member is in the output schema."""

{members}


@endpoint
def {self.name}({takes}) -> {answer}:
    """
    Return the input.

    The first paragraph is the endpoint's description, and the type hints are its schemas. A parameter of the type
    ``agtphost.EndpointContext`` receives the call with its caller and scopes.

{told}
    :raises not_known: nothing has that name
    """
    if {first} == "{self.unknown_value}":
        raise EndpointError("not_known", {{"{first}": {first}}})
    return {{{given}}}
'''

    @property
    def unknown_value(self) -> str:
        """A value that the function does not know, for the test of its error."""
        return "second" if PROCEDURE in self.parameters else "nothing"

    @staticmethod
    def _kind(name: str) -> str:
        # A procedure is chosen from a list instead of given as free text.
        return 'Literal["first", "second"]' if name == PROCEDURE else "str"

    def declaration(self) -> str:
        """Return the text of the TOML file."""
        changes, repeatable = self._effects()
        capability = self.entry.categories[0] if self.entry is not None and self.entry.categories else "retrieval"
        return f"""# {self.method} {self.path}: input, output, errors and description come from its function.

method = {quoted(self.method)}
path = {quoted(self.path)}

# Scopes that a caller needs; without any, every caller of sufficient assurance may call.
required_scopes = [{", ".join(map(quoted, self.scopes))}]

[handler]
type = "registered_function"
function = {quoted(self.function)}
# blocking = true runs it in a thread, for example for a database driver that blocks.

# Agents read this to find out whether the endpoint does what they need.
[semantic]
actor = "agent"
outcome = "The caller has what {self.method} {self.path} answers."
capability = {quoted(capability)}
confidence = 1.0
# One of informational (it changes nothing), reversible and irreversible.
impact = "{"reversible" if changes else "informational"}"
# true if a repeated call changes nothing more.
is_idempotent = {str(repeatable).lower()}
"""

    def _effects(self) -> tuple[bool, bool]:
        """Return whether the method changes something, and whether a repeat changes nothing more."""
        entry = self.entry
        said = None if entry is None else (entry.standard or entry.floor)
        if said is not None:
            return said.get("state_modifying") is not False, said.get("idempotent") is True
        reads = entry is not None and bool(entry.categories) and READS.issuperset(entry.categories)
        return not reads, reads

    def test(self, declaration: Path, folder: Path) -> str:
        """
        Return the text of the test, which needs no host.

        :param declaration: file of the declaration, relative to ``folder``.
        :param folder: directory of the modules, relative to that of the test.
        """
        values = {name: "first" if name == PROCEDURE else "one" for name in self.parameters}
        other = {**values, self.parameters[0]: self.unknown_value}
        caller = f'host.agent("demo"{f", scopes={self.scopes!r}" if self.scopes else ""})'
        return f'''"""{self.method} {self.path}, called at a host in memory."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent / {quoted(str(folder))}
sys.path.insert(0, str(HERE))


@pytest.fixture
def host(agtp_host):
    return agtp_host(endpoints=HERE / {quoted(str(declaration))})


def ask(host, given):
    return host.call("{self.method}", "{self._fill_path(values)}", given, caller={caller})


def test_endpoint_returns_input(host):
    answer = ask(host, {self._body_text(values)})
    assert (answer.status, answer.result) == (200, {values!r}), answer.explanation


def test_endpoint_reports_declared_error(host):
    given = {self._body_text(other)}
    answer = host.call("{self.method}", "{self._fill_path(other)}", given, caller={caller})
    assert (answer.status, answer.reason) == (422, "not_known")


def test_endpoint_refuses_unknown_member(host):
    assert ask(host, {{**{self._body_text(values)}, "unheard_of": 1}}).status == 422
'''

    def _fill_path(self, values: dict[str, str]) -> str:
        path = self.path
        for name in parse_template(self.path).parameters:
            path = path.replace(f"{{{name}}}", values[name])
        return path

    def _body_text(self, values: dict[str, str]) -> str:
        inside = parse_template(self.path).parameters
        return repr({name: value for name, value in values.items() if name not in inside})
