"""The command line. Each command is a module of its own, imported when it is called: an editor waits for `serve`.

Nothing here is of use to a program that embeds an agent.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from acp_server.errors import UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. 2 for a mistake on the command line, which is said in one line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if not arguments:
            # What an editor starts: without click, whose import takes a twentieth of the time until the first answer.
            from acp_server.cli.launch import launch

            return launch()
        return _command(arguments)
    except UsageError as error:
        from acp_server.agent.log import entry

        sys.stderr.write(entry(f"acp-server: {error}"))
        return 2


def _command(arguments: Sequence[str]) -> int:
    import click

    from acp_server.agent.log import UnblockedLog
    from acp_server.cli.commands import commands

    # What is logged says what peers have said, and commands that set up no log show it as well.
    UnblockedLog()
    try:
        result = commands.main(arguments, prog_name="acp-server", standalone_mode=False)
    except click.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return result if isinstance(result, int) else 0
