"""Endpoints declared in the files of a host, whether it runs or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agtphost.cli.failures import WrongInput, configuration_error
from agtphost.errors import ConfigurationError
from agtphost.vocabulary.catalog import Catalog, CatalogError
from agtphost.vocabulary.catalog_files import load_catalog

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.contract.endpoint import Endpoint
    from agtphost.contract.handler_hints import HintsOf


def own_endpoints(config: Config) -> tuple[Catalog, list[Endpoint]]:
    """
    Return the host's catalog and its operator's endpoints.

    :raises agtphost.cli.failures.CommandError: a file is not valid; the message lists every problem.
    """
    from agtphost.contract.declaration import Rules
    from agtphost.contract.endpoint_loading import load_endpoints

    try:
        catalog = load_catalog(config.catalog.path)
    except CatalogError as error:
        raise WrongInput(f"the method catalog is not valid: {error}") from None
    rules = Rules(
        catalog=catalog,
        custom=config.policies.methods.custom,
        standard=config.methods.names,
        hints=_hints(config),
    )
    folder = config.endpoints.directory
    endpoints, problems = ([], []) if folder is None else load_endpoints(folder, rules)
    if problems:
        raise configuration_error(ConfigurationError(problems))
    return catalog, endpoints


def _hints(config: Config) -> HintsOf:
    """Return the function that reads hints of handler functions, as the host does."""
    from agtphost.handlers.endpoint import hints_of
    from agtphost.handlers.function import resolve
    from agtphost.host.bindings import make_importable

    make_importable(config)
    return lambda dotted: hints_of(dotted, resolve)
