"""Endpoints for tests: as functions, as tables like those of TOML, or in the operator's own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agtphost.contract.declaration import Declaration, Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import load_endpoints, read_endpoints
from agtphost.errors import Problem
from agtphost.handlers.context import EndpointContext
from agtphost.handlers.function import Function, resolve
from agtphost.vocabulary.paths import parse_template
from agtphost.vocabulary.tomltext import Location

HandlerFunction = Callable[[EndpointContext], Any]
"""A function that handles calls: returns a result, EndpointResponse or EndpointError, or an awaitable of these."""

_GIVEN = "given.in.memory."


class Declarations:
    """The endpoints given to a host in memory."""

    def __init__(self) -> None:
        self._tables: list[Mapping[str, Any]] = []
        self._paths: list[Path] = []
        self._functions: dict[str, Function] = {}

    def table(self, declaration: Mapping[str, Any]) -> None:
        """
        Add one endpoint.

        :param declaration: as in TOML; ``handler`` may be a function.
        """
        handler = declaration.get("handler")
        if callable(handler):
            reference = {"type": "registered_function", "function": self._register_function(handler)}
            declaration = {**declaration, "handler": reference}
        self._tables.append(declaration)

    def function(
        self,
        method: str,
        path: str,
        function: HandlerFunction | Mapping[str, Any],
        takes: Mapping[str, str | Mapping[str, Any]],
        members: Mapping[str, Any],
    ) -> None:
        """
        Add one endpoint. Without ``members`` it changes nothing and may return any object.

        :param function: the handler function, or a ``[handler]`` table as in TOML.
        :param takes: a JSON type or a schema for each member of its input that is not in the path.
        :param members: members of its declaration; those of ``semantic`` may be given in part.
        """
        said = ((function.__doc__ if callable(function) else "") or "").strip().splitlines()
        description = said[0] if said else f"Answers {method} {path}."
        names = parse_template(path).parameters
        usual: dict[str, Any] = {
            "method": method,
            "path": path,
            "description": description,
            "input_schema": {
                "type": "object",
                "properties": {
                    **{name: {"type": "string"} for name in names},
                    **{name: {"type": kind} if isinstance(kind, str) else kind for name, kind in takes.items()},
                },
                "required": [*names, *takes],
                "additionalProperties": False,
            },
            "output_schema": {"type": "object"},
            "errors": [],
            "handler": function,
        }
        semantic = {
            "intent": description,
            "actor": "agent",
            "outcome": f"{method} {path} is answered.",
            "capability": "retrieval",
            "confidence": 1.0,
            "impact": "informational",
            "is_idempotent": True,
            **members.get("semantic", {}),
        }
        self.table({**usual, **members, "semantic": semantic})

    def files(self, path: Path) -> None:
        """Add a file of endpoints, or a directory of such files."""
        self._paths.append(path)

    def _register_function(self, function: Function) -> str:
        name = f"{_GIVEN}f{len(self._functions)}"
        self._functions[name] = function
        return name

    # Called by the host's own builder

    def find(self, dotted: str) -> Function:
        """
        Return a function that was given, or import one.

        :raises agtphost.handlers.function.UnresolvableFunction: the function does not exist.
        """
        given = self._functions.get(dotted)
        return resolve(dotted) if given is None else given

    def load_declared(self, rules: Rules) -> tuple[Sequence[Endpoint], Sequence[Problem]]:
        """Return the valid endpoints, and the problems of the others."""
        endpoints: list[Endpoint] = []
        problems: list[Problem] = []
        for path in self._paths:
            found, wrong = load_endpoints(path, rules) if path.is_dir() else read_endpoints(path, str(path), rules)
            endpoints.extend(found)
            problems.extend(wrong)
        for number, table in enumerate(self._tables, 1):
            name = f"{table.get('method')} {table.get('path')}"

            def say(location: Location, message: str, hint: str, original: str, name: str = name) -> None:
                where = ".".join(str(part) for part in location)
                problems.append(Problem(message=f"{name}: {where}: {message}", hint=hint, original=original))

            endpoint = Declaration(table, rules, say).endpoint("", number)
            if endpoint is not None:
                endpoints.append(endpoint)
        return endpoints, problems
