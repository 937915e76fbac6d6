"""What ``agtp endpoint new`` writes: a declaration, a function, and a test that passes."""

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
"""Categories of methods that change nothing, where no draft says so."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One endpoint that is to be written."""

    method: str
    path: str
    function: str
    """Dotted: ``handlers.orders.find``."""

    entry: CatalogEntry | None
    """What the catalog says of the method; None of a method of the operator's own."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """What the function takes: what the path names, what its method demands, and a text where that is nothing."""
        named = tuple(dict.fromkeys((*parse_template(self.path).parameters, *DEMANDED.get(self.method, ()))))
        return named or ("text",)

    @property
    def module(self) -> str:
        """Its module, dotted."""
        return self.function.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its name in there."""
        return self.function.rpartition(".")[2]

    @property
    def slug(self) -> str:
        """What its files are called."""
        return f"{self.module.rpartition('.')[2]}_{self.name}"

    @property
    def scopes(self) -> list[str]:
        """What every caller of the method has to hold, whatever its endpoint says."""
        demanded = binding.DEMANDED.get(self.method)
        return [] if demanded is None else [demanded]

    def fault(self) -> str:
        """Why nothing can be written; empty where it can."""
        words = (*self.function.split("."), *self.parameters)
        wrong = [word for word in words if not word.isidentifier() or keyword.iskeyword(word)]
        if wrong:
            return f"{wrong[0]!r} is no name in Python"
        return "" if self.module else f"{self.function} names no module"

    # The files

    def source(self) -> str:
        """The module."""
        takes = ", ".join(f"{name}: {self._kind(name)}" for name in self.parameters)
        told = "\n".join(f"    :param {name}: what callers send; say here what it is" for name in self.parameters)
        first = self.parameters[0]
        literal = "Literal, TypedDict" if PROCEDURE in self.parameters else "TypedDict"
        members = "\n".join(f"    {name}: str" for name in self.parameters)
        given = ", ".join(f'"{name}": {name}' for name in self.parameters)
        return f'''"""{self.method} {self.path}"""

from __future__ import annotations

from typing import {literal}

from agtphost import EndpointError, endpoint


class Answer(TypedDict):
    """What callers get: each member of it is in the output schema."""

{members}


@endpoint
def {self.name}({takes}) -> Answer:
    """
    Answers with what it was sent.

    The first paragraph is the endpoint's description, and the type hints are its schemas. A parameter of the type
    ``agtphost.EndpointContext`` is given the call itself: who calls, and with which scopes.

{told}
    :raises not_known: there is nothing of that name
    """
    if {first} == "{self.refused}":
        raise EndpointError("not_known", {{"{first}": {first}}})
    return {{{given}}}
'''

    @property
    def refused(self) -> str:
        """What the function does not know, for the test of its error."""
        return "second" if PROCEDURE in self.parameters else "nothing"

    @staticmethod
    def _kind(name: str) -> str:
        # What is run stands in a list, and is no free text.
        return 'Literal["first", "second"]' if name == PROCEDURE else "str"

    def declaration(self) -> str:
        """The TOML file."""
        changes, repeatable = self._effects()
        capability = self.entry.categories[0] if self.entry is not None and self.entry.categories else "retrieval"
        return f"""# {self.method} {self.path}: its function says what it takes, gives and raises, and what it is for.
# Whatever is written here counts instead: description, errors, [input_schema], [output_schema].
method = {quoted(self.method)}
path = {quoted(self.path)}

# Scopes that a caller has to hold; none: whoever is known surely enough may call.
required_scopes = [{", ".join(map(quoted, self.scopes))}]

[handler]
type = "registered_function"
function = {quoted(self.function)}
# blocking = true runs it in a thread: for what waits, such as a database driver that blocks.

# What agents read to find out whether this is what they need.
[semantic]
actor = "agent"
outcome = "The caller has what {self.method} {self.path} answers."
capability = {quoted(capability)}
confidence = 1.0
# informational: it changes nothing; reversible; irreversible.
impact = "{"reversible" if changes else "informational"}"
# Whether a repeat changes nothing more.
is_idempotent = {str(repeatable).lower()}
"""

    def _effects(self) -> tuple[bool, bool]:
        """Whether the method changes something, and whether a repeat changes nothing more."""
        entry = self.entry
        said = None if entry is None else (entry.standard or entry.floor)
        if said is not None:
            return said.get("state_modifying") is not False, said.get("idempotent") is True
        reads = entry is not None and bool(entry.categories) and READS.issuperset(entry.categories)
        return not reads, reads

    def test(self, declaration: Path, folder: Path) -> str:
        """
        The test, which needs no host.

        :param declaration: of the endpoint, relative to ``folder``.
        :param folder: what it is run in, relative to the test's own.
        """
        values = {name: "first" if name == PROCEDURE else "one" for name in self.parameters}
        other = {**values, self.parameters[0]: self.refused}
        caller = f'host.agent("demo"{f", scopes={self.scopes!r}" if self.scopes else ""})'
        return f'''"""{self.method} {self.path}, asked of a host in memory."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent / {quoted(str(folder))}
sys.path.insert(0, str(HERE))


@pytest.fixture
def host(agtp_host):
    return agtp_host(endpoints=HERE / {quoted(str(declaration))})


def ask(host, given):
    return host.call("{self.method}", "{self._filled(values)}", given, caller={caller})


def test_it_answers(host):
    answer = ask(host, {self._sent(values)})
    assert (answer.status, answer.result) == (200, {values!r}), answer.explanation


def test_what_it_does_not_know_is_an_error_that_it_declares(host):
    given = {self._sent(other)}
    answer = host.call("{self.method}", "{self._filled(other)}", given, caller={caller})
    assert (answer.status, answer.reason) == (422, "not_known")


def test_what_it_does_not_take_never_reaches_it(host):
    assert ask(host, {{**{self._sent(values)}, "unheard_of": 1}}).status == 422
'''

    def _filled(self, values: dict[str, str]) -> str:
        path = self.path
        for name in parse_template(self.path).parameters:
            path = path.replace(f"{{{name}}}", values[name])
        return path

    def _sent(self, values: dict[str, str]) -> str:
        inside = parse_template(self.path).parameters
        return repr({name: value for name, value in values.items() if name not in inside})
