"""
OpenAPI documents to endpoints, and endpoints to OpenAPI documents.

- :mod:`.answers`: what is answered: the envelope of results, refusals, and what every answer has
- :mod:`.bodies`: request bodies and parameter styles, in the words of an external service's handler table
- :mod:`.components`: schemas as components of a document, their definitions each by itself
- :mod:`.export`: what can be called as OpenAPI 3.1, for clients of HTTP: all of a manifest, or what one caller may call
- :mod:`.fields`: the fields of a request body, gathered from the parts and alternatives of its schema
- :mod:`.importing`: OpenAPI 3.0 and 3.1 to endpoint declarations with external_service handlers
- :mod:`.inputs`: the input of an operation: parameters and body as one closed object
- :mod:`.names`: methods and paths for the operations of an OpenAPI document
- :mod:`.operation`: one operation of an OpenAPI document: its input, its output, its errors and its upstream
- :mod:`.operations`: the operations of a document that is written: endpoints and hosted tools, each where HTTP has it
- :mod:`.placing`: where an operation stands: which of HTTP's methods carries a method of AGTP
- :mod:`.prose`: texts without the HTML that descriptions have
- :mod:`.schemas`: schemas of an OpenAPI document as this host takes them: JSON Schema 2020-12, closed,
  nothing fetched
- :mod:`.sharing`: definitions that many endpoints of one import have, written once
- :mod:`.stubs`: function stubs for imported operations: a service that moves in, instead of being called
- :mod:`.text`: reading a large document from outside, JSON or YAML, into plain values
- :mod:`.upstream`: what an imported endpoint calls: address, headers, and the upstream's names of its input
"""
