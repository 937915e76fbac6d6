"""An agent of the official A2A SDK, the fixture of the tests."""
