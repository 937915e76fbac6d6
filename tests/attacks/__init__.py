"""
Attacks on a production-profile host, each with honest callers beside it.

``python -m tests.attacks`` runs them all and prints bound, measured value and
verdict; the suite runs a shortened programme. ``docs/threats.rst`` says what
each attack stands for.
"""
