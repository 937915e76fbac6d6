"""
Prepare the handlers of endpoints in two steps.

What can be wrong with a handler is found before the host starts: functions are imported, recipes and secrets looked up.
What needs the reactor is made once the host runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList

from agtphost.config import secret
from agtphost.config.faults import ConfigFault
from agtphost.config.secret import Secret
from agtphost.contract.binding import Binding
from agtphost.contract.endpoint import Endpoint, HandlerReference
from agtphost.contract.recipes.book import RecipeBook
from agtphost.contract.service import ServiceReference
from agtphost.handlers.asyncio_loop import AsyncioFunction, AsyncioLoop
from agtphost.handlers.composition import Composition
from agtphost.handlers.function import BlockingFunction, Function, RegisteredFunction, UnresolvableFunction, resolve
from agtphost.handlers.function_check import require_suitable
from agtphost.handlers.interface import IHandler
from agtphost.handlers.threads import Threads
from agtphost.handlers.turn_executor import TurnExecutor
from agtphost.host import plugins
from agtphost.upstream.external import ExternalService
from agtphost.upstream.https import trust_of
from agtphost.vocabulary.foreign_errors import explain

GRACE = 5.0
"""Seconds that an endpoint's timeout exceeds its upstream's, so that callers get the upstream's error."""


class HandlerFactory(Service):
    """
    A service that makes handlers and owns what they keep open.

    :param threads: how many blocking functions may run concurrently.
    :param computing: runs long Python work off the reactor.
    """

    name = "handlers"

    def __init__(self, reactor: Any, threads: int, computing: TurnExecutor) -> None:
        self.reactor, self.computing = reactor, computing
        self.threads = Threads(reactor, threads)
        self.loop = AsyncioLoop(reactor)
        self._services: list[ExternalService] = []
        self._others: list[HandlerFactory] = []

    def fork(self) -> HandlerFactory:
        """
        Return a factory for another configuration, with the same threads; close it before this one stops, or with it.
        """
        made = HandlerFactory.__new__(type(self))
        made.reactor, made.computing = self.reactor, self.computing
        made.threads, made.loop = self.threads, self.loop
        made._services, made._others = [], []
        self._others.append(made)
        return made

    def external(self, reference: ServiceReference, headers: Mapping[str, str], trust: Any) -> ExternalService:
        """Return a handler for an upstream, closed with the host."""
        service = ExternalService(reference, headers, trust, self.reactor, self.reactor.nameResolver)
        self._services.append(service)
        return service

    def close(self, other: HandlerFactory) -> Deferred[Any]:
        """Close the connections of a factory that :meth:`fork` made."""
        self._others.remove(other)
        return other._close()

    def _close(self) -> Deferred[Any]:
        services, self._services = self._services, []
        return DeferredList([service.close() for service in services], consumeErrors=True)

    def stopService(self) -> Deferred[Any]:
        """Close connections to upstreams, and stop the threads."""
        super().stopService()  # type: ignore[no-untyped-call]
        self.threads.stop()
        self.loop.stop()
        return DeferredList([each._close() for each in (self, *self._others)], consumeErrors=True)


@dataclass(frozen=True, kw_only=True)
class PreparedEndpoint:
    """An endpoint whose handler can be made."""

    endpoint: Endpoint
    agent_ids: tuple[str, ...]
    make: Callable[[HandlerFactory], IHandler] = field(repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of its records."""

    def bind(self, factory: HandlerFactory) -> Binding:
        """Return the endpoint bound to its handler."""
        binding = self.endpoint.bind(self.make(factory), self.agent_ids)
        return replace(binding, extra={**binding.extra, **self.extra}) if self.extra else binding


class Bindable(Protocol):
    """An endpoint that a running host can bind."""

    def bind(self, factory: HandlerFactory) -> Binding:
        """Return the endpoint bound to its handler."""


Resolve = Callable[[str], Function]
"""Finds the function of a dotted path; see :func:`agtphost.handlers.function.resolve`."""


def prepare(
    endpoint: Endpoint,
    agent_ids: Iterable[str],
    recipes: RecipeBook,
    environ: Mapping[str, str],
    find: Resolve = resolve,
    factories: Mapping[str, plugins.Factory] | None = None,
) -> PreparedEndpoint:
    """
    Find everything that an endpoint's handler needs.

    :param environ: where ``${VAR}`` and ``env:NAME`` are looked up.
    :param find: imports functions.
    :param factories: of plugins that are not installed, by name.
    :raises agtphost.handlers.function.UnresolvableFunction: something is missing; the message names it.
    """
    ids = tuple(agent_ids)
    reference = endpoint.handler
    if reference.service is not None:
        timeout = endpoint.timeout or reference.service.timeout + GRACE
        make = _external(reference.service, Path(endpoint.file).parent, environ)
        return PreparedEndpoint(endpoint=replace(endpoint, timeout=timeout), agent_ids=ids, make=make)
    if reference.recipe:
        recipe = recipes.find(reference.recipe)
        if recipe is None:
            raise UnresolvableFunction(f"the recipe {reference.recipe} is not registered")
        extra = {"recipe": recipe.name, "recipe_version": recipe.version}
        return PreparedEndpoint(
            endpoint=endpoint,
            agent_ids=ids,
            make=lambda factory: Composition(recipe, factory.reactor, factory.computing),
            extra=extra,
        )
    function = _plugin(reference, factories) if reference.plugin else find(reference.function)
    require_suitable(function, blocking=reference.blocking, on_loop=reference.asyncio)
    if reference.asyncio:
        return PreparedEndpoint(
            endpoint=endpoint,
            agent_ids=ids,
            make=lambda factory: AsyncioFunction(function, factory.loop, factory.reactor),
        )
    if reference.blocking:
        return PreparedEndpoint(
            endpoint=endpoint,
            agent_ids=ids,
            make=lambda factory: BlockingFunction(function, factory.threads, factory.reactor),
        )
    return PreparedEndpoint(endpoint=endpoint, agent_ids=ids, make=lambda factory: RegisteredFunction(function))


class WrongHandlerSettings(UnresolvableFunction):
    """
    The settings of a plugin's handler are wrong.

    :param faults: with locations within the settings.
    """

    def __init__(self, message: str, faults: Sequence[ConfigFault]) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


def _plugin(reference: HandlerReference, factories: Mapping[str, plugins.Factory] | None) -> Function:
    try:
        provider: IHandler = plugins.make_plugin(reference.plugin, reference.settings, IHandler, factories)
    except plugins.UnusablePlugin as error:
        if error.faults:
            raise WrongHandlerSettings(str(error), error.faults) from None
        raise UnresolvableFunction(str(error), error.hint) from None
    return provider.handle


def _external(
    service: ServiceReference, folder: Path, environ: Mapping[str, str]
) -> Callable[[HandlerFactory], IHandler]:
    headers = _headers(service, environ, folder)
    trust = _trust(folder / service.ca) if service.ca else trust_of(None)

    def make(factory: HandlerFactory) -> IHandler:
        # Secrets are revealed here, for the one upstream that the operator named them for.
        opened = {name: value.reveal() for name, value in headers.items()}
        handler: IHandler = factory.external(service, opened, trust)
        return handler

    return make


def _headers(service: ServiceReference, environ: Mapping[str, str], folder: Path) -> dict[str, Secret]:
    """
    Return the header fields of an external service, with ``${VAR}``, ``env:NAME`` and ``file:PATH`` resolved (AGTP-API
    section 12.3).

    :param folder: the base of relative paths.
    :raises UnresolvableFunction: a variable or file cannot be read; the message names it and the field, never a value.
    """
    hint = "set the variable in the host's environment, or write the secret's file as file:PATH"
    found: dict[str, Secret] = {}
    for name, value in service.headers.items():
        try:
            found[name] = secret.resolve(value, environ, folder)
        except ValueError as error:
            raise UnresolvableFunction(f"handler.headers.{name} {error}", hint, cause=str(error)) from None
        text = found[name].reveal()
        if not text.isascii() or not text.isprintable():
            message = f"handler.headers.{name} names a value that is not one line of ASCII text"
            raise UnresolvableFunction(message, hint, cause=f"{value} is not one line of ASCII text")
    return found


def _trust(path: Path) -> Any:
    try:
        return trust_of(path)
    except OSError as error:
        raise UnresolvableFunction(f"handler.ca {path} cannot be read: {explain(error)}") from error
    except ValueError as error:
        raise UnresolvableFunction(f"handler.ca {path} is not a PEM file of certificates: {explain(error)}") from error
