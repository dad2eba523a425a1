"""The plans of plain functions, carried out in their threads."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from acp_server import AcpError, Call, RpcError, ToolContext
from tests.storm.plans import Plan

if TYPE_CHECKING:
    from tests.storm.handlers import Stage


class Note(Protocol):
    """Writes down that something happens, see `journal`."""

    def __call__(self, what: str, key: str = "", more: Any = None) -> Any:
        """Whatever it returns is not used."""
        ...


class Gates(Protocol):
    """Where threads wait for the storm's word."""

    def gate(self) -> None:
        """Wait."""
        ...

    def open_gates(self, for_good: bool = False) -> None:
        """Let those go on that wait."""
        ...


def walk(stage: "Stage", key: str, plan: Plan, call: Call | ToolContext) -> Iterator[str]:
    """Step by step, with a piece of text between two of them."""
    for name, *arguments in plan:
        match name:
            case "say":
                assert isinstance(call, ToolContext)
                call.progress(stage.tag(key))
            case "read":
                assert isinstance(call, ToolContext)
                try:
                    call.run(_read, call, f"/{stage.tag(key)}")
                except AcpError as error:
                    stage.note("not read", key, type(error).__name__)
            case "gate":
                stage.gates.gate()
            case "look":
                if call.is_cancelled:
                    return
            case _:
                raise ValueError("planned") if arguments == ["value"] else RpcError("planned", code=-31999)
        yield f"{key} goes on\n"


async def _read(call: ToolContext, path: str) -> None:
    if call.client.capabilities.fs.read_text_file:
        await call.client.read_text_file(path)
    else:
        await call.client.request("_client/ask", {"path": path})


def play_in_thread(stage: "Stage", key: str, plan: Plan, call: Call | ToolContext) -> None:
    """The same at a stretch."""
    for _ in walk(stage, key, plan, call):
        pass
