"""
Serve the HTTP gateway, over which any HTTP client calls endpoints and tools.

- :mod:`.feature`: what the host takes, for ``[gateway]``
- :mod:`.gateway`: the resource: each request is one to the dispatcher
- :mod:`.translation`: translation between HTTP and AGTP: one request, one answer
- :mod:`.tool_calls`: ``POST /tools/SERVER/TOOL``: a call of one hosted tool
- :mod:`.gateway_events`: streamed answers
- :mod:`.gateway_documents`: documents that the gateway answers itself, below ``/.well-known/``;
  :mod:`.own_documents`: those that a configuration has
- :mod:`.viewer_files`: the page of the OpenAPI document: Swagger UI from a package, and a few own files
"""
