"""`AssistantTool`: a tool in two parts, a manifest and the functions that are registered for it.

The functions are called by the names of their parameters; one of them makes the approval request (`functions`). This
package maps all of that to a `Tool`. How a call runs, is approved and is cancelled is decided in
`acp_server.tools.runner` and `acp_server.tools.permission`, as for every other tool.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from threading import get_ident
from typing import Any, Final, Protocol, cast

from acp_server import Approval, OnCancel, RpcError, Tool, ToolContext, ToolFailed, UsageError, UserAction
from acp_server.apps.assistant.functions import ApprovalRequest, Function, Invocation, PreviewButton, Registered, Trial
from acp_server.apps.assistant.manifest import Manifest, ManifestError, Said
from acp_server.apps.assistant.manifest_parameter import Name, Parameter, Value, ValueType
from acp_server.tools.approval import unexplained
from acp_server.tools.editor import Editor, EditResult
from acp_server.tools.output import snapshot

logger: logging.Logger = logging.getLogger("acp_server.tools")

Result = dict[str, Any]


class HasTools(Protocol):
    """An object that tools can be added to, such as an agent."""

    def add_tool(self, tool: Tool[Any]) -> None:
        """Register a tool."""
        ...


class AssistantTool:
    """One tool of an assistant.

    `manifest`: a `Manifest`, or the source that `Manifest.load` reads; raises ManifestError. `agent`: the agent to
    which the tool is added when its function is registered; or pass `tool` to `Agent.add_tool`. `kind`,
    `approval_timeout`: see `Tool`.

    Functions are async or plain. A plain function runs in a thread and gets a `BlockingEditor`. Functions take any of
    these arguments. `params`: a dict with the keys that the manifest declares, or the annotated dataclass or model.
    `user_action`: for a tool that needs approval. `editor`: may be None. `call`: the `ToolContext`, or a `Trial` in a
    test call.

    Arguments are passed by these names and by type. Parameters with other names and without a default get the remaining
    arguments, in this order. A second function of a kind replaces the first for later calls, with a warning.
    """

    def __init__(
        self,
        manifest: str | os.PathLike[str] | Mapping[str, Any] | Manifest,
        agent: HasTools | None = None,
        *,
        kind: str = "other",
        approval_timeout: float | None = None,
    ) -> None:
        self.manifest: Final = Manifest.load(manifest)
        self._agent = agent
        self._function: Registered | None = None
        self._request: Registered | None = None
        self._running: ContextVar[Invocation | None] = ContextVar(f"execution of {self.manifest.id}", default=None)
        self._executions: set[Invocation] = set()
        self._was_ambiguous = False
        self.tool: Final = Tool(
            self._execute,
            name=self.manifest.id,
            title=self.manifest.display_name,
            description=self.manifest.description,
            kind=kind,
            approval=self._ask if self.manifest.require_approval else False,
            auto_approve=self.manifest.auto_approve,
            asks_each_time=not self.manifest.auto_approve,
            approval_timeout=approval_timeout,
            answers_refusal=self.manifest.require_approval,
            needs_editor=self.manifest.script_editor_only,
            parameters=_Declared(self.manifest),
        )
        """The tool for an agent."""

    # -- what authors register

    def register_execute_tool(self, function: Function) -> Callable[..., Awaitable[Result]]:
        """Register `function(params, editor)`, which runs the tool without approval. It returns `{"success": ...,
        "message": ...}`, a bool and the text for the model. `success` may be the result of an editor's method. If that
        method did not change the file, the model gets the reason.

        Returns a function for tests: `await test(params, editor=None)` is its result. Raises UsageError if the manifest
        requires approval.
        """
        if self.manifest.require_approval:
            raise UsageError(f"{self.manifest.id} requires approval: use register_execute_tool_with_approval")
        self._register(function, ("params", "editor"))

        async def test(params: Mapping[str, Any], editor: Editor | None = None) -> Result:
            return await self._try(params, editor)

        return test

    def register_execute_tool_with_approval(self, function: Function) -> Callable[..., Awaitable[Result]]:
        """Register `function(params, user_action, editor)`, which runs the tool after the user was asked.

        It is also called if the user did not approve, and must then only return a message: only
        `user_action.primary_confirmed` is an approval, and otherwise the call ends as `rejected`, whatever `success`
        is. It is not called if the call was cancelled meanwhile.

        Returns a function for tests: `await test(params, user_action, editor=None)`, where `user_action` may be a
        mapping, as for `UserAction.read`. The result is as for `register_execute_tool`. Raises UsageError if the
        manifest requires no approval.
        """
        if not self.manifest.require_approval:
            raise UsageError(f"{self.manifest.id} requires no approval: use register_execute_tool")
        self._register(function, ("params", "user_action", "editor"))

        async def test(
            params: Mapping[str, Any], user_action: UserAction | Mapping[str, Any], editor: Editor | None = None
        ) -> Result:
            return await self._try(params, UserAction.read(user_action), editor)

        return test

    def register_approval_request(self, function: Function) -> Callable[..., Awaitable[ApprovalRequest]]:
        """Register `function(params, editor)`, which returns the approval request: an `ApprovalRequest`, or a dict of
        its fields.

        An approval request function changes nothing, and its editor does not write. Without such a function, the
        request has the tool's name. Returns a function for tests: `await test(params, editor=None)`. Raises UsageError
        if the manifest requires no approval.
        """
        if not self.manifest.require_approval:
            raise UsageError(
                f"an approval request was registered for {self.manifest.id}, whose manifest requires no approval"
            )
        if self._request is not None:
            logger.warning("the approval request of %s was registered twice; the first was replaced", self.manifest.id)
        self._request = Registered(function, ("params", "editor"))

        async def test(params: Mapping[str, Any], editor: Editor | None = None) -> ApprovalRequest:
            assert self._request is not None
            return ApprovalRequest.read(await self._request.call(self.manifest.check(params), editor, call=Trial()))

        return test

    # -- the execution that is running where this is asked

    @property
    def on_cancel(self) -> OnCancel | None:
        """Return the function that is called when the user cancels the current execution (see `ToolContext.on_cancel`).

        Set it in the registered function, or in code that the function calls or starts. In a thread that the author
        started, it belongs to the only running execution. If several executions run, it is None, and a warning is
        logged once. Outside of an execution it is None, and setting it only logs a warning.
        """
        execution = self._current()
        return None if execution is None else execution.on_cancel

    @on_cancel.setter
    def on_cancel(self, function: OnCancel | None) -> None:
        if function is not None and not callable(function):
            raise TypeError(f"on_cancel must be a function or None, not {type(function).__name__}")
        execution = self._current()
        if execution is not None and not execution.ended:
            execution.set_on_cancel(function, self._running)
        elif function is not None:
            logger.warning(
                "on_cancel of %s was set while the tool was not running, so the function is not called",
                self.manifest.id,
            )

    @property
    def is_cancelled(self) -> bool:
        """Whether the current execution is being cancelled. False outside an execution. For threads, see
        `on_cancel`."""
        execution = self._current()
        return execution is not None and execution.context.is_cancelled

    def _current(self) -> Invocation | None:
        execution = self._running.get()
        if execution is not None:
            return execution
        # The author's own thread does not have the context variable. Code in the event loop has it, so such code is
        # outside.
        match [each for each in list(self._executions) if each.loop_thread != get_ident()]:
            case []:
                return None
            case [only]:
                return only
            case several:
                if not self._was_ambiguous:
                    self._was_ambiguous = True
                    logger.warning(
                        "%s: cannot tell which of %d running executions this thread belongs to; start the thread "
                        "with contextvars.copy_context().run, or use a parameter `call: ToolContext`",
                        self.manifest.id,
                        len(several),
                    )
                return None

    # -- what the runner calls

    async def _ask(self, params: dict[str, Any], context: ToolContext) -> Approval:
        editor = Editor.of(context.session, may_write=False)
        if self._request is None:
            return unexplained(self.manifest.display_name, snapshot(params))
        request = ApprovalRequest.read(await self._request.call(params, editor, call=context))
        preview: list[Any] = []
        if request.preview_button is not None:
            pieces = await Registered(request.preview_button.action, ()).call()
            preview = list(cast("list[Any]", pieces)) if isinstance(pieces, (list, tuple)) else [pieces]
            preview = [piece for piece in preview if piece is not None]
        if editor is not None:
            preview = [*await editor.take_diffs(), *preview]
        if preview and request.preview_button is not None:
            preview.insert(0, request.preview_button.label)
        return request.approval(preview)

    async def _execute(self, params: dict[str, Any], context: ToolContext) -> str | None:
        editor = Editor.of(context.session)
        if self._function is None:
            raise ToolFailed(f"{self.manifest.display_name} is not available yet.")
        arguments = (params, context.action, editor) if self.manifest.require_approval else (params, editor)
        result = await self._run(Invocation(context, self._executions), self._function, arguments)
        if context.is_cancelled:
            return None
        if editor is not None:
            await self._show_diffs(editor, context)
        outcome = self._outcome(result)
        # A result after the user's rejection ends the call as rejected, whatever its `success` is.
        if not outcome["success"] and context.primary_confirmed:
            raise ToolFailed(outcome["message"])
        return outcome["message"]

    async def _try(self, params: Mapping[str, Any], *rest: Any) -> Result:
        assert self._function is not None
        result = await self._run(
            Invocation(Trial(), self._executions), self._function, (self.manifest.check(params), *rest)
        )
        return self._outcome(result)

    async def _run(self, execution: Invocation, function: Registered, arguments: tuple[Any, ...]) -> Any:
        token = self._running.set(execution)
        try:
            return await function.call(*arguments, call=execution.context, inside=execution)
        finally:
            execution.ended = True
            self._running.reset(token)

    async def _show_diffs(self, editor: Editor, context: ToolContext) -> None:
        try:
            for diff in await editor.take_diffs():
                if diff.old_text != diff.new_text:
                    context.progress(diff)
        except RpcError:
            logger.warning("the client cannot show the diff that %s opened", self.manifest.id, exc_info=True)

    def _register(self, function: Function, takes: tuple[str, ...]) -> None:
        registered = Registered(function, takes)
        again = self._function is not None
        self._function = registered
        if again:
            logger.warning("%s was registered twice; its first function was replaced", self.manifest.id)
        elif self._agent is not None:
            self._agent.add_tool(self.tool)

    def _outcome(self, result: Any) -> Result:
        found: Mapping[str, Any] = cast("Mapping[str, Any]", result) if isinstance(result, Mapping) else {}
        success, message = found.get("success"), found.get("message")
        if isinstance(success, EditResult):
            # The message was written without knowing that the edit would fail.
            message = message if success else success.reason
            success = bool(success)
        if isinstance(success, bool) and isinstance(message, str):
            return {"success": success, "message": message}
        logger.error("%s must return {'success': bool, 'message': str}, not %r", self.manifest.id, cast("Any", result))
        raise ToolFailed(f"{self.manifest.display_name} did not report its result.")


class _Declared:
    """Makes one dict of the parameters that a manifest declares (see `Arguments`)."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def read(self, params: Any) -> dict[str, Any]:
        """See `Arguments`."""
        return {"params": self._manifest.check(params)}

    @property
    def json_schema(self) -> dict[str, Any]:
        """See `Arguments`."""
        return self._manifest.input_schema


__all__ = [
    "ApprovalRequest",
    "AssistantTool",
    "Function",
    "HasTools",
    "Manifest",
    "ManifestError",
    "Name",
    "Parameter",
    "PreviewButton",
    "Result",
    "Said",
    "Value",
    "ValueType",
]
