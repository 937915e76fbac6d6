"""The command ``agtp run``: run a host in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.host_config import NO_HOST, find_config, load_config
from agtphost.cli.options import Connection, host_file, json_option, named_file


@click.command()
@host_file
@click.option("--pid-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the process number to a file.")
@click.option("--log-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the log to a file.")
@json_option
def command(file: Path | None, named: Path | None, pid_file: Path | None, log_file: Path | None, as_json: bool) -> None:
    """
    Run a host in the foreground, as `twistd -n agtp --config host.toml` does.

    Without an argument it uses the host.toml of the working directory. SIGTERM and Ctrl-C end the host after pending
    answers were sent; SIGHUP reloads its files. To check first whether it would start, run `agtp check`.

    The exit status is 0 after the host was stopped, 1 if it cannot start, and 75 if another host has taken its store
    over. With --json, the problems of an invalid host.toml are printed as JSON, with exit status 2; the log stays text.

    \b
    Examples:
      agtp run
      agtp run my-host/host.toml
      agtp run --config my-host --log-file my-host/host.log
    """
    path = find_config(Connection(config=named_file(file, named)))
    if path is None:
        raise WrongInput("no host.toml is named", NO_HOST)
    if as_json:
        load_config(path)
    words = ["--nodaemon", f"--pidfile={pid_file or ''}"]
    if log_file is not None:
        words.append(f"--logfile={log_file}")
    # Twisted reads its options only from here.
    sys.argv = ["twistd", *words, "agtp", "--config", str(path)]
    from twisted.scripts.twistd import run

    run()  # type: ignore[no-untyped-call]
