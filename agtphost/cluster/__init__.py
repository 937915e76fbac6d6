"""
Several hosts with one store, of which one serves and the others stand by.

- :mod:`.standby`: waits for the lease of the store, and takes it
- :mod:`.readiness`: the answers of a standby to load balancers and orchestrators
- :mod:`.heartbeat`: keeps the lease, and says whether it is confirmed recently enough for handlers to run
- :mod:`.process_reports`: shows the process to commands that compare the hosts
- :mod:`.shared_numbers`: numbers of what is published, so that no number is used for two contents
- :mod:`.pod_label`: labels the pod of the host that serves, for Kubernetes

A takeover is a start on another machine: the host that lost the lease ends, and never serves again in that process.
"""

from __future__ import annotations
