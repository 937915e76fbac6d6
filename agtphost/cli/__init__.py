"""
The ``agtp`` command: interface section 2.

- :mod:`.root`: the group, which imports a command's module when it is called
- :mod:`.failures`: exit statuses, and how errors are shown
- :mod:`.output`: tables, JSON and untrusted text on a terminal
- :mod:`.ports`: ports for hosts to try
- :mod:`.colour`, :mod:`.progress`: verdicts in colour, and how far a long command is, on terminals
- :mod:`.options`: options that several commands share
- :mod:`.configured`, :mod:`.identities`: the host on this machine, and its agents
- :mod:`.target`: which host, as whom, trusting what
- :mod:`.arguments`: ``key=value`` and ``key:=json``
- :mod:`.local_files`: files on this machine: keys and documents
- :mod:`.plain_files`: files on this machine as octets, for commands that need no keys
- :mod:`.exchange`: one request, its failures as exit statuses
- one module per command, or per group of commands
- :mod:`.abbreviations`: identifiers that are named by their beginning
- :mod:`.approvals`: ``agtp approvals``: calls that wait for a person, and what that person decides
- :mod:`.approval_records`: the records of a call that a person approved, each naming the others
- :mod:`.call`: ``agtp call``: one request, any method
- :mod:`.can`: ``agtp can``: what the host would decide about a call, without making it
- :mod:`.check`: ``agtp check``: everything that would keep a host from starting, at once
- :mod:`.completing`: what a shell completes of the host that is at hand
- :mod:`.completion`: ``agtp completion``: what a shell evaluates to complete commands
- :mod:`.confirming`: asking before calls that cannot be undone
- :mod:`.conformance`: ``agtp conformance``: a server examined from outside, requirement by requirement
- :mod:`.contracts`: ``agtp contracts``: what was negotiated with a host
- :mod:`.delegation`: ``agtp delegation``: the tokens that DELEGATE wants
- :mod:`.deployment`: what ``agtp init`` writes
- :mod:`.dns_lookup`: TXT records from one resolver: a question, an answer, and nothing believed that was not asked
  for
- :mod:`.docs`: ``agtp docs``: the pages of the documentation, of the version that is installed
- :mod:`.document`: ``agtp document``: signing and verifying an Agent Identity Document
- :mod:`.domain`: ``agtp domain``: telling a host that a domain expired, was renewed or changed hands
- :mod:`.explain`: ``agtp explain``: one record, told as a story, with what proves it and what would be decided today
- :mod:`.foreground`: a host in the command's own process, until somebody stops it
- :mod:`.genesis`: ``agtp genesis``: issuing and verifying an Agent Genesis
- :mod:`.init`: ``agtp init``: a directory that a host can be started from
- :mod:`.manifest`: ``agtp manifest``: showing and checking a server's manifest
- :mod:`.mcp_bridge`: ``agtp mcp-bridge``: a host, for any MCP client
- :mod:`.mcp_import`: MCP servers out of the configuration of Claude, VS Code or Cursor
- :mod:`.mcp_servers`: MCP servers that a command line names, as ``host.toml`` says them
- :mod:`.methods`: ``agtp methods``: what the drafts tabulate of each method, or what a host offers
- :mod:`.agis`: ``agtp agis``: AGIS documents examined and written canonically
- :mod:`.agis_similarity`: what its ``--similarity`` measures by
- :mod:`.agis_matching`: ``agtp agis map`` and ``match``: what a service can do, and what somebody's words mean
- :mod:`.agis_converting`: ``agtp agis to-mcp``, ``from-mcp``, ``to-openapi``, ``from-openapi``
- :mod:`.agis_publishing`: ``agtp agis import``, ``export``, ``publish``: documents and the endpoints of a host
- :mod:`.importing`: declarations for review; :mod:`.own_endpoints`: what the files of a host declare
- :mod:`.openapi`: ``agtp openapi``: endpoints from OpenAPI documents, and OpenAPI documents from endpoints
- :mod:`.page`: ``agtp page``: a link to the operators' page of a host
- :mod:`.propose`: ``agtp propose``: ask a host for an endpoint that it does not have
- :mod:`.resolve`: ``agtp resolve``: what a URI addresses, and whether it is to be believed
- :mod:`.reload`: ``agtp reload``: change without a restart
- :mod:`.status`: ``agtp status``: how a host is; :mod:`.resting`: what the files of one say that does not run
- :mod:`.run`: ``agtp run``: a host that stays, in the foreground
- :mod:`.scaffold`: what a deployment begins with besides ``host.toml``: an example, what git needs, a unit
- :mod:`.shipped`: the sample deployment and the documentation, from a wheel or a checkout
- :mod:`.units`: units of systemd for a deployment
- :mod:`.tools`: ``agtp tools``: what a host's MCP servers offer, through AGTP
- :mod:`.up`: ``agtp up``: a host to try, made and started
- :mod:`.upstreams`: ``agtp upstreams``: what a host's MCP servers, A2A agents and ACP servers are up to
- :mod:`.wellknown`: ``agtp wellknown``: the bootstrap document of a host, for operators who serve it elsewhere
- :mod:`.approving`: ``agtp tools approve`` and ``agtp upstreams approve``: what is approved is what was shown
- :mod:`.agent`: ``agtp agent``
- :mod:`.audit`: ``agtp audit``
- :mod:`.backup`: ``agtp backup``, ``agtp restore``
- :mod:`.catalog`: ``agtp catalog``
- :mod:`.client`: ``agtp client``
- :mod:`.registry`: ``agtp registry``
- :mod:`.cert`: ``agtp cert``
- :mod:`.endpoint`: ``agtp endpoint``
- :mod:`.key`: ``agtp key``
"""

from __future__ import annotations


def main() -> None:
    """The ``agtp`` script."""
    from agtphost.cli.root import agtp

    agtp(prog_name="agtp")


__all__ = ["main"]
