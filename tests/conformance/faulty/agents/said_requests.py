"""Faults of single requests to the client: files, terminals, and questions for leave."""

from __future__ import annotations

from outgoing import Outgoing
from rpc import Json


class FileUri(Outgoing):
    """Names files by their URI."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method.startswith("fs/"):
            params["path"] = "file://" + params["path"]


class LineAsText(Outgoing):
    """Writes numbers of lines as text."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "fs/read_text_file":
            params["line"] = "1"


class NegativeLimit(Outgoing):
    """Wants fewer lines than none."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "fs/read_text_file":
            params["limit"] = -1


class UriForPath(Outgoing):
    """Calls a path a uri."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "fs/read_text_file":
            params["uri"] = params.pop("path")


class ContentAsLines(Outgoing):
    """Writes files as lists of lines."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "fs/write_text_file":
            params["content"] = params["content"].split()


class TextForContent(Outgoing):
    """Calls the content of a file text."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "fs/write_text_file":
            params["text"] = params.pop("content")


class ModeOfAFile(Outgoing):
    """Says with which rights a file is written, beside the content."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "fs/write_text_file":
            params["mode"] = 420


class EnvironmentAsObject(Outgoing):
    """Names variables as members of an object."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "terminal/create":
            params["env"] = {"A": "b"}


class LimitAsText(Outgoing):
    """Writes the limit of an output as text."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "terminal/create":
            params["outputByteLimit"] = "1 MB"


class ArgumentsAsText(Outgoing):
    """Writes the arguments of a command as one text."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "terminal/create":
            params["args"] = "test"


class TildeFolder(Outgoing):
    """Starts commands below a tilde."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "terminal/create":
            params["cwd"] = "~"


class IdForTerminalId(Outgoing):
    """Names terminals by the member id."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if "terminalId" in params:
            params["id"] = params.pop("terminalId")


class NamelessOption(Outgoing):
    """Offers options without names."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["options"] = [{"optionId": "yes", "kind": "allow_once"}]


class NumberedOptions(Outgoing):
    """Numbers its options."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["options"] = [{**each, "optionId": n} for n, each in enumerate(params["options"])]


class OptionsAsText(Outgoing):
    """Offers options as words."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["options"] = ["yes", "no"]


class NoToolCall(Outgoing):
    """Asks for leave for nothing."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            del params["toolCall"]


class ToolCallAsText(Outgoing):
    """Asks for leave for a name."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["toolCall"] = params["toolCall"]["toolCallId"]


class KindOfOldTimes(Outgoing):
    """Offers options of a kind that there is not."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["options"] = [{**each, "kind": each["kind"].removesuffix("_once")} for each in params["options"]]


class AsksForAnother(Outgoing):
    """Asks for leave in the name of a session that nobody made."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["sessionId"] = "main"


class AsksWithoutId(Outgoing):
    """Asks for leave by a notification."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            del message["id"]


class FractionIds(Outgoing):
    """Numbers its requests with fractions."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if "id" in message:
            message["id"] = message["id"] + 0.5


class ObjectIds(Outgoing):
    """Names its requests by objects."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if "id" in message:
            message["id"] = {"n": message["id"]}


class ReleasesInAnothersName(Outgoing):
    """Releases terminals in the name of a session that nobody made."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "terminal/release":
            params["sessionId"] = "main"


class ReasonInside(Outgoing):
    """Puts a member of its own into a tool call that it asks leave for."""

    def request_said(self, method: str, params: Json, message: Json) -> None:
        if method == "session/request_permission":
            params["toolCall"]["reason"] = "I want to"
