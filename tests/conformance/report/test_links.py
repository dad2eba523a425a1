"""Each rule leads to its sentence."""

import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.client import cases as client_cases
from acp_conformance.report.links import link_to

ACP = "https://agentclientprotocol.com"


def test_every_rule_has_a_link_to_its_section() -> None:
    everything = [case for registry in (agent_cases.load(), client_cases.load()) for case in registry]
    assert {
        (case.id, case.source, case.section) for case in everything if not link_to(case.source, case.section)
    } == set()


@pytest.mark.parametrize(
    ("source", "section", "address"),
    [
        ("ACP v1", "Prompt Turn, Cancellation", f"{ACP}/protocol/v1/prompt-turn#cancellation"),
        ("ACP v1", "Prompt Turn, Agent Reports Output", f"{ACP}/protocol/v1/prompt-turn#3-agent-reports-output"),
        ("ACP v1", "Extensibility, The _meta Field", f"{ACP}/protocol/v1/extensibility#the-_meta-field"),
        ("ACP v1", "Overview", f"{ACP}/protocol/v1/overview"),
        ("ACP v1", "Schema, ErrorCode, -32002", f"{ACP}/protocol/v1/schema#errorcode"),
        ("ACP v1", "Prompt Turn, No such heading", ""),
        ("ACP v1", "No such page", ""),
        (
            "ACP v1",
            "Cancellation, $/cancel_request Notification",
            f"{ACP}/protocol/v1/cancellation#%24%2Fcancel_request-notification",
        ),
        ("JSON-RPC 2.0", "5.1 Error object", "https://www.jsonrpc.org/specification#error_object"),
        ("JSON-RPC 2.0", "Notification", "https://www.jsonrpc.org/specification#notification"),
        ("RFC 8259", "8.1 Encoding", "https://www.rfc-editor.org/rfc/rfc8259#section-8.1"),
        ("RFD request-cancellation", "FAQ", f"{ACP}/rfds/request-cancellation#frequently-asked-questions"),
        ("a book", "its last page", ""),
    ],
)
def test_a_section_has_the_anchor_of_its_heading(source: str, section: str, address: str) -> None:
    assert link_to(source, section) == address
