"""What has to hold for every message that a client of version 2 sends, judged over the whole run."""

from conformance.client.checks import Seen
from conformance.client.v2.registry import SOURCE, case
from conformance.core.case import MUST, fail


@case("v2-envelope/objects", level=MUST, source=SOURCE, section="Transports", whole_run=True)
async def objects(seen: Seen) -> None:
    """Every line of a client is one JSON object, and never a batch."""
    if found := seen.findings.get("v2-object", []):
        fail(f"{found[0].what} (in {found[0].case}; {len(found)} in all): {found[0].line[:200]}")
