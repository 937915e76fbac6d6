"""
The common part of all services behind this host, for every protocol.

:mod:`.failures` has the reasons why a call has no result, and :mod:`.refusals` the caller's answers. :mod:`.service` is
    the service of one upstream: :mod:`.supervision` has its states, :mod:`.queue` its running and waiting calls,
    :mod:`.throttle` limits what it makes the host read and log, and :mod:`.log` writes its part of the host's log.

- :mod:`.pins`: approved definitions of upstreams; :mod:`.approval`: operators approve changed ones
- :mod:`.offered_tools`: the tools and actions of upstreams, and why some are off
- :mod:`.external`, over :mod:`.external_http`: HTTPS services as handlers of endpoints
- :mod:`.web_upstream`: upstreams over HTTP: the client and the service; :mod:`.bodies`: bounded readers of answers
- :mod:`.ownership`: the owner of each task of an upstream; :mod:`.cancellation` ends tasks of stopped callers
- :mod:`.addresses`: connections only to addresses that a policy admits
- :mod:`.https`: the one HTTPS client of this project: pooled connections, verified TLS, no redirects, no cookies
- :mod:`.octet_limit`: limits on what an upstream may send per request
"""
