"""`acp-server doctor`: says in words what would go wrong with an agent in an editor or in the ACP registry."""

from __future__ import annotations

import click

from acp_server.cli.agent_command import agent_command
from acp_server.cli.examination import Examination
from acp_server.cli.screen import Screen, use_standard_output


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--timeout", default=60.0, show_default=True, help="Seconds that the agent may take for an answer.")
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED)
def doctor(timeout: float, agent: tuple[str, ...]) -> int:
    """Start AGENT as an editor and as the check of the ACP registry do, and say what would go wrong.

    AGENT is what `acp-server chat` takes: a Python file, module:attribute, or a command. Exit status 1 if something is
    wrong; what is only worth knowing does not count.
    """
    use_standard_output()
    examination = Examination(agent_command(agent), timeout, Screen())
    examination.run()
    return 1 if examination.faults else 0
