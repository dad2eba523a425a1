"""`acp-server schema`: the types of the protocol as JSON Schema."""

from __future__ import annotations

import click


@click.command()
@click.argument("directory", type=click.Path(file_okay=False), default="protocol_schemas")
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is stale.")
def schema(directory: str, check: bool) -> int:
    """Write the protocol's types as JSON Schema into DIRECTORY (`protocol_schemas` without one)."""
    from acp_server.schema import export

    return export.main(["--check", directory] if check else [directory])
