"""A server of the ACP SDK, the fixture of the tests."""
