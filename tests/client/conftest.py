"""What the tests of the client share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.client.credentials import Credentials, create
from tests.client.drivers import AioDriver, BlockingDriver, Driver, twisted_driver


@pytest.fixture(scope="session")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    """One set of certificates for the whole run."""
    return create(tmp_path_factory.mktemp("credentials"))


@pytest.fixture(params=[twisted_driver, BlockingDriver, AioDriver], ids=["twisted", "blocking", "asyncio"])
def new_client(request: pytest.FixtureRequest, credentials: Credentials) -> Callable[..., Driver]:
    """Makes a client that trusts the test's CA, unless told otherwise."""

    def make(**options: Any) -> Driver:
        made: Driver = request.param(**{"trust": credentials.trust, "timeout": 10.0, **options})
        return made

    return make
