"""
The ``agtp`` command (interface section 2).

- :mod:`.root`: the command group; it imports a command's module when the command is called
- :mod:`.failures`: exit statuses, and how errors are printed
- :mod:`.usage_errors`: Click's errors about the command line, in our words
- :mod:`.output`: tables, JSON and untrusted text on a terminal
- :mod:`.ports`: free ports for trial hosts
- :mod:`.colour`, :mod:`.progress`: coloured verdicts and progress of long commands on terminals
- :mod:`.options`: options that several commands share
- :mod:`.host_config`, :mod:`.identities`: the host on this machine, and its agents
- :mod:`.target`: which host to call, as which agent, with which trust anchors
- :mod:`.arguments`: ``key=value`` and ``key:=json`` arguments
- :mod:`.local_files`: keys and documents in files on this machine
- :mod:`.plain_files`: bytes of files on this machine, for commands that need no keys
- :mod:`.exchange`: send one request; its failures become exit statuses
- :mod:`.groups`: verbs that all groups share, and ``--config`` in front of a command
- :mod:`.near_names`: endpoints that are close to one that a host does not have
- :mod:`.config_edit`: change ``host.toml`` for a command, and let a running host apply it
- one module per command, or per group of commands
- :mod:`.abbreviations`: identifiers given by their first digits
- :mod:`.approvals`: ``agtp approvals``: calls that wait for a person, and the person's decisions
- :mod:`.approval_records`: the records of a call that a person approved, which refer to each other
- :mod:`.call`: ``agtp call``: one request, any method
- :mod:`.can`: ``agtp can``: what the host would decide about a call, without calling
- :mod:`.check`: ``agtp check``: report every reason that would keep a host from starting
- :mod:`.completion_sources`: shell completions that come from the configured host
- :mod:`.completion`: ``agtp completion``: the script that a shell evaluates to complete commands
- :mod:`.confirmation`: ask before calls that cannot be undone
- :mod:`.conformance`: ``agtp conformance``: test a server from outside, requirement by requirement
- :mod:`.contracts`: ``agtp contracts``: the contracts negotiated with a host
- :mod:`.delegation`: ``agtp delegation``: issue the tokens that DELEGATE requires
- :mod:`.deployment`: the files that ``agtp init`` writes
- :mod:`.dns_lookup`: TXT records from one resolver; an answer counts only if it matches the question
- :mod:`.docs`: ``agtp docs``: the documentation of the installed version
- :mod:`.document`: ``agtp document``: sign and verify an Agent Identity Document
- :mod:`.domain`: ``agtp domain``: report to a host that a domain expired, was renewed or changed hands
- :mod:`.explain`: ``agtp explain``: explain one record: its evidence, and what the host would decide today
- :mod:`.foreground`: a host in the command's own process, until it is stopped
- :mod:`.genesis`: ``agtp genesis``: issue and verify an Agent Genesis
- :mod:`.init`: ``agtp init``: create a directory from which a host can start
- :mod:`.manifest`: ``agtp manifest``: show and check a server's manifest
- :mod:`.mcp_bridge`: ``agtp mcp-bridge``: serve a host's tools to any MCP client
- :mod:`.mcp_import`: import MCP servers from the configuration of Claude, VS Code or Cursor
- :mod:`.mcp_servers`: MCP servers given on a command line, as sections of ``host.toml``
- :mod:`.methods`: ``agtp methods``: the methods of the drafts, or those that a host offers
- :mod:`.agis`: ``agtp agis``: check AGIS documents and write them in canonical form
- :mod:`.agis_similarity`: the similarity measure of its ``--similarity``
- :mod:`.agis_match`: ``agtp agis map`` and ``match``: what a service can do, and which endpoint an instruction means
- :mod:`.agis_conversion`: ``agtp agis to-mcp``, ``from-mcp``, ``to-openapi``, ``from-openapi``
- :mod:`.agis_publication`: ``agtp agis import``, ``export``, ``publish``: AGIS documents and the endpoints of a host
- :mod:`.import_output`: drafts of endpoint declarations; :mod:`.own_endpoints`: endpoints declared in a host's files
- :mod:`.openapi`: ``agtp openapi``: endpoints from OpenAPI documents, and OpenAPI documents from endpoints
- :mod:`.page`: ``agtp page``: a sign-in link to the operators' page of a host
- :mod:`.propose`: ``agtp propose``: ask a host for an endpoint that it does not have
- :mod:`.resolve`: ``agtp resolve``: what a URI addresses, verified
- :mod:`.reload`: ``agtp reload``: apply a changed configuration without a restart
- :mod:`.status`: ``agtp status``: the state of a host; :mod:`.offline_status`: the state that the files of a stopped
  host show; :mod:`.standby_status`: the state of a standby; :mod:`.store_risks`: what is unsafe about its database
- :mod:`.run`: ``agtp run``: run a host in the foreground
- :mod:`.scaffold`: files of a new deployment besides ``host.toml``: an example, ``.gitignore``, a unit
- :mod:`.shipped`: the sample deployment and the documentation, found in a wheel or a checkout
- :mod:`.units`: systemd units for a deployment
- :mod:`.tools`: ``agtp tools``: list and call the tools of a host's MCP servers through AGTP
- :mod:`.up`: ``agtp up``: create and start a trial host; :mod:`.up_output`: what it prints
- :mod:`.up_hosts`: its ``--hosts``: several hosts with one store; :mod:`.up_hosts_output`: what that prints
- :mod:`.trial_cluster`: supervises these; :mod:`.trial_host`: one of them; :mod:`.trial_database`: their PostgreSQL
- :mod:`.upstream`: ``agtp upstream``: the MCP servers, A2A agents and ACP agents behind a host
- :mod:`.wellknown`: ``agtp wellknown``: the bootstrap document of a host, for operators who serve it elsewhere
- :mod:`.approval_prompt`: ``agtp tools approve`` and ``agtp upstreams approve``: approve exactly what was shown
- :mod:`.agent`: ``agtp agent``
- :mod:`.audit`: ``agtp audit``
- :mod:`.cluster`: ``agtp cluster``
- :mod:`.store`: ``agtp store``; :mod:`.store_copy`: copies a store into another kind of database; :mod:`.store_move`:
  the mark of the store that was copied
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
    """Run the ``agtp`` script."""
    from agtphost.cli.root import agtp

    agtp(prog_name="agtp")


__all__ = ["main"]
