"""
``@endpoint``: a function whose type hints and docstring say what its endpoint takes, gives and raises.

Optional: a function that takes an :class:`~agtphost.EndpointContext` and returns a mapping needs nothing of this. See
``docs/endpoints.rst``.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar, overload

from agtphost.contract.handler_hints import Hints, HintsError
from agtphost.handlers.context import EndpointContext, EndpointError, EndpointResponse
from agtphost.handlers.type_schemas import UnsupportedType, is_model, read, schema_of, to_json

F = TypeVar("F", bound=Callable[..., Any])

SIGNATURE = "__agtp_endpoint__"
"""The attribute of a declared function that has what it says; its ``function`` is the plain one."""

_NONE: Mapping[str, Iterable[str]] = {}
_FIELD = re.compile(r":(param|raises|raise|intent|return|returns)(?:\s+([\w.-]+))?:\s*")
_SECTION = re.compile(r"(Args|Arguments|Parameters|Raises|Returns):\s*")
_ITEM = re.compile(r"\s+(\w[\w.-]*)(?:\s*\([^)]*\))?:\s*(.*)")
_ERROR = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)


@overload
def endpoint(function: F) -> F: ...
@overload
def endpoint(
    *,
    errors: Iterable[str] = (),
    intent: str = "",
    mcp_tool_name: str = "",
    parameter_hints: Mapping[str, Iterable[str]] = ...,
) -> Callable[[F], F]: ...
def endpoint(
    function: Any = None,
    *,
    errors: Iterable[str] = (),
    intent: str = "",
    mcp_tool_name: str = "",
    parameter_hints: Mapping[str, Iterable[str]] = _NONE,
) -> Any:
    """
    Declare a handler by its type hints and its docstring.

    Its parameters are members of the input, by name; one that is annotated with
    :class:`~agtphost.EndpointContext` is given the call itself. A parameter with a default may be left out by callers.
    The first paragraph of the docstring is the endpoint's description, ``:param NAME:`` describes a member, and
    ``:raises NAME:`` with a name in small letters declares an error, which is raised with
    :class:`~agtphost.EndpointError`. Members that the TOML leaves out are taken from here.

    Called with anything but a context alone, it is the plain function: for its own tests.

    :param errors: declared errors, besides those of the docstring.
    :param intent: of the ``[semantic]`` block; the description, where it is left out.
    :param mcp_tool_name: what its tool is called among those of MCP; made of method and path, where it is left out.
    :param parameter_hints: what users call its parameters: phrases by name.
    """
    said: dict[str, Any] = {"mcp_tool_name": mcp_tool_name} if mcp_tool_name else {}
    if parameter_hints:
        said["parameter_hints"] = {name: list(phrases) for name, phrases in parameter_hints.items()}
    if function is None:
        return functools.partial(_declare, errors=tuple(errors), intent=intent, for_tools=said)
    return _declare(function, errors=tuple(errors), intent=intent, for_tools=said)


def _declare(
    function: Callable[..., Any], *, errors: tuple[str, ...], intent: str, for_tools: Mapping[str, Any]
) -> Callable[..., Any]:
    taken = _Signature(function, errors, intent, for_tools)

    @functools.wraps(function)
    def called(*args: Any, **values: Any) -> Any:
        if len(args) == 1 and not values and isinstance(args[0], EndpointContext):
            return taken.call(args[0])
        return function(*args, **values)

    setattr(called, SIGNATURE, taken)
    return called


class _Signature:
    """The signature of a function, read on first use, because hints may name things that are defined further down."""

    def __init__(
        self, function: Callable[..., Any], errors: tuple[str, ...], intent: str, for_tools: Mapping[str, Any]
    ) -> None:
        self._for_tools = for_tools
        self.function = function
        self._errors = errors
        self._intent = intent

    @functools.cached_property
    def _written(self) -> Any:
        """Return the function whose source has the hints and the docstring."""
        return written_function(self.function)

    @functools.cached_property
    def _kinds(self) -> dict[str, Any]:
        return typing.get_type_hints(self._written, include_extras=True)

    @functools.cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        # What a partial names is its author's, and not for callers.
        fixed = self.function.keywords if isinstance(self.function, functools.partial) else {}
        parameters = inspect.signature(self.function).parameters
        found = {name: each for name, each in parameters.items() if name not in fixed}
        for position, (name, each) in enumerate(found.items()):
            if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
                raise UnsupportedType(
                    f"the parameter {name} has no name that a caller could send",
                    "give each member of the input a separate parameter; a decorator below @endpoint needs "
                    "functools.wraps",
                )
            if name not in self._kinds and position == 0 and name in ("self", "cls"):
                raise UnsupportedType(
                    f"{self._written.__qualname__} is a method, and {name} is not a member of the input",
                    f"leave @endpoint out in the class, and declare the bound method in the module: "
                    f"NAME = endpoint(INSTANCE.{self._written.__name__})",
                )
            if name not in self._kinds:
                raise UnsupportedType(f"the parameter {name} has no type hint", f"write {name}: str, or what it is")
        return found

    @functools.cached_property
    def _context(self) -> str:
        """Return the parameter that is given the call; empty where none is."""
        return next((name for name in self._parameters if _is_context(self._kinds[name])), "")

    def call(self, context: EndpointContext) -> Any:
        """Call the function with what a call brought."""
        given = {
            name: read(self._kinds[name], context.input[name])
            for name in self._parameters
            if name != self._context and name in context.input
        }
        if self._context:
            given[self._context] = context
        answer = self.function(**given)
        return _await_answer(answer) if inspect.isawaitable(answer) else _answer(answer)

    def hints(self) -> Hints:
        """
        Return what the function declares of its endpoint.

        :raises UnsupportedType: a hint cannot be expressed as a JSON Schema.
        """
        told = _Docstring(inspect.getdoc(self._written) or "")
        members = [name for name in self._parameters if name != self._context]
        if isinstance(self._written, type):
            raise UnsupportedType(f"{self._written.__qualname__} is a class", "write a function that returns one")
        code = inspect.unwrap(self._written).__code__
        return Hints(
            description=told.description,
            intent=self._intent or told.intent or told.description,
            input_schema=self._input(members, told) if members or not self._context else None,
            output_schema=self._output(),
            errors=tuple(dict.fromkeys((*self._errors, *told.errors))),
            for_tools=self._for_tools,
            where=f"{code.co_filename}:{code.co_firstlineno}",
        )

    def _input(self, members: Iterable[str], told: _Docstring) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        for name in members:
            said = {"description": told.members[name]} if name in told.members else {}
            try:
                properties[name] = {**said, **schema_of(self._kinds[name])}
            except UnsupportedType as error:
                raise UnsupportedType(f"the parameter {name}: {error}", error.hint) from None
        needed = [name for name in properties if self._parameters[name].default is inspect.Parameter.empty]
        required = {"required": needed} if needed else {}
        return {"type": "object", "properties": properties, **required, "additionalProperties": False}

    def _output(self) -> dict[str, Any] | None:
        kind = _without_outcomes(result_of(self._kinds.get("return")))
        if kind is type(None):
            raise UnsupportedType(
                "it returns None, which is not an answer", "return a dictionary: {} if there is nothing to return"
            )
        if kind in (None, Any):
            return None
        try:
            schema = schema_of(kind)
        except UnsupportedType as error:
            raise UnsupportedType(f"what it returns: {error}", error.hint) from None
        if schema.get("type") != "object":
            raise UnsupportedType(
                "it returns something else than a mapping, a TypedDict, a dataclass or a model",
                "return a TypedDict with a member for it; what may be missing is a member, too",
            )
        # A result may have more members than are promised, as everywhere.
        return {**schema, "additionalProperties": True} if "properties" in schema else schema


class _Docstring:
    """A docstring with fields (``:param x:``) or with sections (``Args:``)."""

    def __init__(self, text: str) -> None:
        self._fields: list[tuple[str, list[str]]] = []
        self.errors: list[str] = []
        self.intent = ""
        first, _, rest = text.strip().partition("\n\n")
        if _FIELD.match(first) or _SECTION.fullmatch(first.partition("\n")[0]):
            first, rest = "", text
        self.description = " ".join(first.split())
        self._read(rest)

    @property
    def members(self) -> Mapping[str, str]:
        """Return the docstring's text for each member."""
        return {name: " ".join(lines).strip() for name, lines in self._fields}

    def _read(self, text: str) -> None:
        section = ""
        take: Callable[[str], None] = _nothing
        for line in text.splitlines():
            field, heading, item = _FIELD.match(line), _SECTION.fullmatch(line), _ITEM.fullmatch(line)
            if field:
                section, take = "", self._begin(field[1], field[2] or "", line[field.end() :])
            elif heading:
                section, take = heading[1], _nothing
            elif section and item and section != "Returns":
                take = self._begin("raises" if section == "Raises" else "param", item[1], item[2])
            elif line.strip():
                take(line.strip())
            else:
                take = _nothing

    def _begin(self, kind: str, name: str, text: str) -> Callable[[str], None]:
        """Take in one field; gives what takes in the lines that follow it."""
        if kind == "param" and name:
            lines = [text.strip()]
            self._fields.append((name, lines))
            return lines.append
        if kind.startswith("raise") and _ERROR.fullmatch(name):
            self.errors.append(name)
        elif kind == "intent":
            self.intent = text.strip()
        return _nothing


def _nothing(more: str) -> None:
    """Takes in a line that says nothing of the endpoint."""


def result_of(kind: Any) -> Any:
    """
    Return the type that callers get, of the type that a function returns.

    That is T of ``Deferred[T]``, ``Awaitable[T]``, ``Coroutine[..., T]``, a future or task of asyncio, and a generator
    for ``inlineCallbacks``, ``Generator[Deferred[Any], Any, T]``. One that names no type gives any.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated and result_of(arguments[0]) is not arguments[0]:
        return result_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        waited = dict.fromkeys(result_of(each) for each in arguments)
        return typing.Union[tuple(waited)]  # noqa: UP007 - the number of members varies
    waits = origin or kind
    if isinstance(waits, type) and issubclass(waits, (Awaitable, Generator)):
        # The result is the last argument of each of them; an alias of collections.abc has None as it is written.
        last = arguments[-1] if arguments else Any
        return type(None) if last is None else result_of(last)
    return kind


def _is_context(kind: Any) -> bool:
    """Return whether a parameter is given the call; it may say that tests leave it out: ``EndpointContext | None``."""
    return kind is EndpointContext or (EndpointContext in typing.get_args(kind) and type(None) in typing.get_args(kind))


def _without_outcomes(kind: Any) -> Any:
    """Return what is left of a type without those that are complete answers: an error, or a whole response."""
    if kind in (EndpointResponse, EndpointError):
        return Any
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    results = [each for each in typing.get_args(kind) if each not in (EndpointResponse, EndpointError)]
    return typing.Union[tuple(results)] if results else Any  # noqa: UP007 - of as many as there are


def written_function(function: Any) -> Any:
    """Return the function behind a ``functools.partial`` or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type) or hasattr(function, "__wrapped__"):
        return function
    return type(function).__call__


async def _await_answer(answer: Any) -> Any:
    while inspect.isawaitable(answer):
        answer = await answer
    return _answer(answer)


def _answer(answer: Any) -> Any:
    """Return the function's result as an answer of the host."""
    if isinstance(answer, (EndpointResponse, EndpointError)):
        return answer
    if isinstance(answer, Mapping) or is_dataclass(answer) or is_model(type(answer)):
        return to_json(answer)
    return answer


def hints_of(dotted: str, find: Callable[[str], Any]) -> Hints | None:
    """
    Return what the function of a dotted path declares of its endpoint; None if it was not declared with
    :func:`endpoint`.

    :param find: imports it.
    :raises HintsError: it cannot be imported, or a hint of it cannot be expressed.
    """
    from agtphost.handlers.function import UnresolvableFunction

    try:
        found = find(dotted)
    except UnresolvableFunction as error:
        raise HintsError(str(error), error.hint, error.place, absent=error.absent) from error
    if isinstance(found, functools.partial) and hasattr(found.func, SIGNATURE):
        raise HintsError(
            f"{dotted} is a partial of a function that is declared with @endpoint",
            "leave @endpoint out above the function, and write endpoint(functools.partial(...))",
        )
    taken = getattr(found, SIGNATURE, None)
    if not isinstance(taken, _Signature):
        return None
    try:
        return taken.hints()
    except NameError as error:
        raise HintsError(
            f"the type hints of {dotted} cannot be expressed as JSON Schemas: {error}",
            "import the name at run time: what is imported below `if TYPE_CHECKING` is missing when hints are read",
        ) from error
    except Exception as error:
        # Hints are the operator's code: a model of pydantic raises what it likes.
        said = str(error).partition("\n")[0]
        raise HintsError(
            f"the type hints of {dotted} cannot be expressed as JSON Schemas: {said}",
            getattr(error, "hint", "") or "mend the hint",
        ) from error
