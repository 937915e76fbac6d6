"""
What a host offers and how it decides what a request means: AGTP-API.

- :mod:`.binding`: one thing that can be called, and what calling it needs
- :mod:`.endpoint`, :mod:`.semantic`: the operator's endpoints
- :mod:`.loading`, :mod:`.declaration`: endpoints from TOML, with every problem's file and line
- :mod:`.schemas`, :mod:`.schema_rules`, :mod:`.schema_references`: JSON Schemas: what they may contain, what their
  references lead to; compiled once
- :mod:`.table`: which binding a method and path select
- :mod:`.policy`: which methods are accepted, under which other names
- :mod:`.manifest`: the server manifest
"""
