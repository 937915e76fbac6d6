"""
What all services behind this host have in common, whatever protocol they speak.

:mod:`.failures` says why a call has no result, and :mod:`.refusals` what its
caller is answered. :mod:`.service` is the service of one upstream:
:mod:`.supervision` has its states, :mod:`.queue` its calls at work and waiting,
:mod:`.throttle` what it may make the host read and log, and :mod:`.log` is its part of the host's log.

- :mod:`.pins`: what upstreams say of themselves, and which of that is approved; :mod:`.approval`: operators approve it
- :mod:`.offered`: what upstreams offer, one by one, and what of it is off
- :mod:`.web`: upstreams over HTTP: how one is asked, and its service; :mod:`.bodies`: bounded readers of answers
- :mod:`.ownership`: whose each task of an upstream is; :mod:`.cancellation` ends them with their callers
- :mod:`.addresses`: connections to addresses that a policy admits, and to nothing else
- :mod:`.https`: the one HTTPS client of this project: pooled connections, verified TLS, no redirects, no cookies
- :mod:`.octet_limit`: limits on what an upstream may send before it is asked again
"""
