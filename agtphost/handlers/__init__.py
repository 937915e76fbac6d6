"""
What answers an endpoint.

- :mod:`.context`: what a handler receives, returns and raises
- :mod:`.authorization`: who acts for the people: operators, registrars, overseers
- :mod:`.function` and :mod:`.threads`: registered Python functions
- :mod:`.composition` and :mod:`.steps`: recipes
- :mod:`.external`, over :mod:`.upstream`, :mod:`.addresses`, :mod:`.octet_limit` and :mod:`.circuit`: HTTPS services
"""
