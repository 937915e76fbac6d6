"""
Tests of agtphost.wire: framing without I/O.

They reach every statement and branch of the package; :mod:`tests.wire.test_coverage`
holds them to it. By hand::

    coverage run --source agtphost/wire --branch -m pytest tests/wire && coverage report --fail-under=100
"""
