"""Makes ``twistd agtp`` known to Twisted."""

from twisted.application.service import ServiceMaker

agtp = ServiceMaker(
    "agtphost",
    "agtphost.tap",
    "Host MCP servers and Python functions behind the Agent Transfer Protocol",
    "agtp",
)
