"""List everything that can be called: the protocol's own methods and the operator's endpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agtphost.config import Config
from agtphost.contract import reserved
from agtphost.contract.binding import Binding
from agtphost.contract.declaration import Rules
from agtphost.contract.declared_names import DeclaredNames
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import AbsentTarget, find_line, load_endpoints, summarize
from agtphost.contract.recipes import selection
from agtphost.contract.recipes.book import EMPTY, RecipeBook
from agtphost.errors import Problem
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.handlers.endpoint import hints_of
from agtphost.handlers.function import RegisteredFunction, UnresolvableFunction, resolve
from agtphost.handlers.interface import IHandler
from agtphost.host import handler_factory
from agtphost.host.handler_factory import WrongHandlerSettings
from agtphost.host.plugins import Factory
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import default_assurance
from agtphost.methods import execution
from agtphost.vocabulary.catalog import Catalog


def built_ins(
    catalog: Catalog,
    *,
    discover: IBuiltInHandler,
    describe: IBuiltInHandler,
    inspect: IBuiltInHandler,
    change: IBuiltInHandler,
    carrier: execution.Carrier,
    propose: IBuiltInHandler | None = None,
    floor: Assurance = Assurance.CERTIFICATE,
    carrying: Assurance = execution.FLOOR,
) -> tuple[Binding, ...]:
    """
    Return tier A: the methods that every host of this kind answers under any configuration.

    :param floor: the least assurance of a caller that changes state.
    :param carrying: the least assurance of a caller of EXECUTE, from :func:`carrying_assurance`.
    """

    def read(method: str, path: str, handler: IBuiltInHandler, *, server_level: bool = True) -> Binding:
        statement = catalog.statement(method)
        return Binding.native(method, path, handler, statement, Assurance.NONE, server_level=server_level)

    carried = Binding.native("EXECUTE", "/", carrier, catalog.statement("EXECUTE"), carrying, changes=True)
    # Operators may call EXECUTE; actions that need an agent ask for one once the body has named the action.
    carried = replace(carried, operators=True)
    return (
        *(read("DISCOVER", path, discover) for path in reserved.DISCOVERY),
        read("DESCRIBE", "/", describe, server_level=False),
        read("DESCRIBE", "/agents", describe),
        read("QUERY", "/agents", describe),
        read("DESCRIBE", "/agents/{name}", describe, server_level=False),
        read("DESCRIBE", "/agents/{name}/status", describe, server_level=False),
        *(read("FETCH", path, describe, server_level="{" not in path) for path in reserved.FETCHED),
        read("INSPECT", "/", inspect),
        # The client certificate's key decides who may change a lifecycle, not a calling agent.
        *(replace(read(method, "/", change), state_changing=True, vital=True) for method in reserved.LIFECYCLE),
        *execution.bindings(carrier, carried),
        *(_negotiation_bindings(catalog, propose, floor) if propose is not None else ()),
    )


def carrying_assurance(
    config: Config, endpoints: Iterable[Binding], adapters: Iterable[IPayloadAdapter], floor: Assurance
) -> Assurance:
    """
    Return the least assurance of a caller of EXECUTE, before its action asks for more.

    EXECUTE only carries actions. It needs the default assurance, or less where the operator opened an action to callers
    of less assurance, so that this action can be called.

    :param endpoints: the operator's; those with an action are called by EXECUTE as well.
    :param adapters: asked for the tools that they know at start.
    :param floor: the least assurance of a caller that changes state.
    """
    opened = [each.min_assurance for each in endpoints if "action" in each.details]
    opened += [tool.min_assurance for adapter in adapters for tool in adapter.tools()]
    opened += [each.min_assurance for each in (*config.a2a.agent, *config.acp.agent)]
    for server in config.mcp.server:
        opened.append(server.least_assurance(None, floor, changes=False))
        for overrides in (server.tools, server.resources, server.prompts):
            opened += [each.min_assurance for each in overrides.values() if each.min_assurance is not None]
    return max(execution.FLOOR, min((default_assurance(floor, changes=False), *opened)))


def _negotiation_bindings(catalog: Catalog, propose: IBuiltInHandler, floor: Assurance) -> Iterator[Binding]:
    """
    Yield the bindings of negotiation. The proposal decides who may make it, so the handler checks (core v08 section
    7.5).
    """
    for method, path in reserved.NEGOTIATION:
        decides = method == "CONFIRM"
        least = floor if decides else Assurance.NONE
        statement, changes = catalog.statement(method), method != "QUERY"
        made = Binding.native(method, path, propose, statement, least, changes=changes, vital=decides)
        # Operators decide, and operators are not agents.
        yield replace(made, operators=decides)


@dataclass(frozen=True, kw_only=True)
class ExtraEndpoints:
    """Endpoints from outside ``[endpoints] directory``, and the resolver of their functions."""

    declared: Callable[[Rules], tuple[Sequence[Endpoint], Sequence[Problem]]] = lambda rules: ((), ())
    """Return the sound endpoints, and the problems of the others."""

    find: handler_factory.Resolve = resolve
    """Find their functions."""

    plugins: Mapping[str, Factory] = field(default_factory=dict)
    """Factories of plugins that are not installed, by the names that endpoints and settings use."""

    features: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Factories of features that are not installed, by the names of their tables ``[feature.NAME]``."""


def load_bound_endpoints(
    config: Config,
    rules: Rules,
    directory: IAgentDirectory,
    problems: list[Problem],
    environ: Mapping[str, str],
    given: ExtraEndpoints | None = None,
) -> tuple[list[Endpoint], list[handler_factory.PreparedEndpoint], RecipeBook]:
    """
    Return tier B: the operator's endpoints with what their handlers need, and the recipes.

    :param given: endpoints in addition to those of ``[endpoints] directory``.
    :param problems: collects problems; with ``on_error = "skip"`` the host starts without those endpoints.
    """
    folder = config.endpoints.directory
    names = DeclaredNames(folder, config.recipes.file, config.endpoints.python_path, config.folder)
    rules = replace(rules, names=names, standard=config.methods.names)
    read = selection.read(config.recipes.file, rules, problems)
    if folder is None and given is None:
        found: list[Problem] = []
        book, _ = selection.settle(read, (), rules.reserved, found)
        hint = 'write directory = "endpoints" in [endpoints]'
        problems.extend(replace(each, hint=hint) if isinstance(each, AbsentTarget) else each for each in found)
        return [], [], book
    make_importable(config)
    find = resolve if given is None else given.find
    rules = replace(rules, hints=lambda dotted: hints_of(dotted, find))
    declared, wrong = ([], []) if folder is None else load_endpoints(folder, rules)
    if given is not None:
        further, faults = given.declared(rules)
        declared, wrong = [*declared, *further], [*wrong, *faults]
    problems.extend(wrong)
    ready: dict[str, handler_factory.PreparedEndpoint] = {}
    factories = {} if given is None else given.plugins
    lacking: dict[str, list[Problem]] = {}

    def prepare(endpoint: Endpoint, book: RecipeBook) -> None:
        try:
            ids = _agent_ids(endpoint, directory)
            ready[endpoint.name] = handler_factory.prepare(endpoint, ids, book, environ, find, factories)
        except WrongHandlerSettings as error:
            problems.extend(each for each in _setting_problems(endpoint, error) if each not in problems)
        except UnresolvableFunction as error:
            line, hint = endpoint.line, error.hint
            if endpoint.handler.plugin:
                line = find_line(endpoint, ("handler", "plugin"))
            elif error.absent:
                line = find_line(endpoint, ("handler", "function"))
                table = {"method": endpoint.method, "path": endpoint.path}
                hint = names.find_function_cure(endpoint.handler.function, table) or hint
            problem = Problem(message=f"{endpoint.name}: {error}", file=endpoint.file, line=line, hint=hint)
            if error.place is not None:
                # A file that several endpoints need is reported once.
                problem = Problem(message=str(error), file=error.place[0], line=error.place[1], hint=error.hint)
            if error.cause:
                lacking.setdefault(error.cause, []).append(problem)
            elif problem not in problems:
                problems.append(problem)

    for endpoint in declared:
        if not endpoint.handler.recipe:
            prepare(endpoint, EMPTY)
    problems.extend(map(summarize, lacking.values()))
    able = [endpoint for endpoint in declared if endpoint.handler.recipe or endpoint.name in ready]
    book, settled = selection.settle(read, able, rules.reserved, problems)
    for endpoint in settled:
        if endpoint.handler.recipe:
            prepare(endpoint, book)
    bound = [_with_definition(ready[endpoint.name], endpoint) for endpoint in settled if endpoint.name in ready]
    return [prepared.endpoint for prepared in bound], bound, book


def _with_definition(
    prepared: handler_factory.PreparedEndpoint, endpoint: Endpoint
) -> handler_factory.PreparedEndpoint:
    """Return the endpoint with the definition that approvals are bound to; it is known once its steps are."""
    return replace(prepared, endpoint=replace(prepared.endpoint, definition=endpoint.definition))


def _setting_problems(endpoint: Endpoint, error: WrongHandlerSettings) -> Iterator[Problem]:
    for fault in error.faults:
        key = ("settings", *fault.location)
        name = ".".join(str(step) for step in key)
        yield Problem(
            message=f"{endpoint.name}: [handler] {name} {fault.message}",
            file=endpoint.file,
            line=find_line(endpoint, ("handler", *key)),
            hint=fault.hint or f"leave {key[-1]} out, or write it as the plugin {endpoint.handler.plugin} documents it",
        )


def _agent_ids(endpoint: Endpoint, directory: IAgentDirectory) -> Iterator[str]:
    for name in endpoint.agents:
        agent = directory.by_name(name)
        if agent is None:
            raise UnresolvableFunction(f"no hosted agent is named {name}")
        yield agent.agent_id


def make_importable(config: Config) -> None:
    """Put the operator's directories first on the module search path."""
    for path in config.endpoints.python_path:
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))


def builtin_overrides(
    config: Config, problems: list[Problem], given: ExtraEndpoints | None = None
) -> dict[str, IHandler]:
    """Return the operator's handlers that replace built-ins, by path (AGTP-API section 5.9)."""
    find = resolve if given is None else given.find
    if config.policies.builtins:
        make_importable(config)
    found: dict[str, IHandler] = {}
    for path, dotted in config.policies.builtins.items():
        try:
            found[path] = RegisteredFunction(find(dotted))
        except UnresolvableFunction as error:
            message = f"[policies.builtins] {path}: {error}"
            problems.append(Problem(message=message, file=str(config.file), hint=error.hint))
    return found


def units_of(bindings: Iterable[Binding]) -> frozenset[str]:
    """Return the units in which bindings state a cost; a Budget-Limit may use only these."""
    return frozenset(unit for binding in bindings for unit in (binding.cost or ()))


def methods_of(bindings: Iterable[Binding]) -> Sequence[str]:
    """Return every bound method, in the order of first appearance."""
    return list(dict.fromkeys(binding.method for binding in bindings))
