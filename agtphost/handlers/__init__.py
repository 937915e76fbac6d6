"""
What answers an endpoint.

- :mod:`.context`: what an operator's handler receives, returns and raises; :mod:`.interface`: its interface
- :mod:`.built_in`: what the host's own methods receive and return, and where the line is drawn
- :mod:`.parameters`: reading a method's parameters
- :mod:`.operators`: who runs the host, and what each role may do
- :mod:`.authorization`: who acts for the people: operators, registrars, overseers; :mod:`.addresses`: people and groups
- :mod:`.deciders`: who decided something, and when, for the refusal of a later decision
- :mod:`.function` and :mod:`.threads`: registered Python functions; :mod:`.modules`: their modules, imported anew
- :mod:`.turn_executor`: work off the reactor, in turn
- :mod:`.asyncio_loop`: functions of asyncio; :mod:`.function_check`: whether a function can answer where it runs
- :mod:`.endpoint` and :mod:`.type_schemas`: ``@endpoint``: what type hints and docstrings say of an endpoint
- :mod:`.composition` and :mod:`.recipe_step`: recipes
- :mod:`.deadlines`: one timer for many waits; :mod:`.listening_requests`: requests that wait for news, until a stop;
  :mod:`.rights_listeners`: those that end when the rights of their agent change
- :mod:`.peer_hosts`: other AGTP hosts that this one may ask
- :mod:`.http_bodies`: forms, files and header values for the HTTPS services of :mod:`agtphost.upstream.external`
- :mod:`.log_context`: which call a line of the log belongs to; :mod:`.tracing`: and to which trace the call itself does
"""
