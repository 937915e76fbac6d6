"""
The composition root: the only place that knows concrete classes.

- :mod:`.assembly`: configuration and reactor in, services out; reads as a bill of materials
- :mod:`.agents`: the agents this host knows
- :mod:`.bindings`: everything that can be called
- :mod:`.publication`: the manifest and its version
- :mod:`.upstreams`: hosted MCP servers
- :mod:`.services`: start and stop in order, signals, the line that says ready
"""
