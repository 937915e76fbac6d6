"""
What answers an endpoint.

- :mod:`.context`: what a handler receives, returns and raises
- :mod:`.function`: registered Python functions
"""
