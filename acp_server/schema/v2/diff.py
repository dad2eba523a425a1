"""Changes to files that a tool made or proposes (ACP v2, tool calls: content)."""

from typing import Annotated, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import Lenient, Model, Sent, Unknown, Wire
from acp_server.schema.unions import OpenEnum, Tagged
from acp_server.schema.v2.types import AbsolutePath, MediaType

DiffFileType = TypeAliasType(
    "DiffFileType",
    Annotated[Literal["text", "binary", "directory", "symlink"] | str, OpenEnum(extensible=True)],
)
"""What is at a path. Names of one's own begin with `_`."""

DiffPatchFormat = TypeAliasType("DiffPatchFormat", Annotated[Literal["git_patch"] | str, OpenEnum(extensible=True)])
"""The form of a patch's text. Names of one's own begin with `_`."""


class DiffPathChange(Model):
    """A change to what is at one path."""

    path: AbsolutePath
    """The path that changes."""
    file_type: Lenient[DiffFileType | None] = None
    """What is there."""
    mime_type: Lenient[MediaType | None] = None
    """Its media type."""


class DiffPathPairChange(DiffPathChange):
    """A change that has two paths; `path` is the new one."""

    old_path: AbsolutePath
    """The path it was at."""


class DiffAdd(DiffPathChange):
    """A file is new."""

    operation: Sent[Literal["add"]] = "add"


class DiffDelete(DiffPathChange):
    """A file is gone."""

    operation: Sent[Literal["delete"]] = "delete"


class DiffModify(DiffPathChange):
    """A file is changed where it is."""

    operation: Sent[Literal["modify"]] = "modify"


class DiffMove(DiffPathPairChange):
    """A file is at another path, perhaps changed."""

    operation: Sent[Literal["move"]] = "move"


class DiffCopy(DiffPathPairChange):
    """A file is a copy of another, perhaps changed."""

    operation: Sent[Literal["copy"]] = "copy"


class UnknownDiffChange(Unknown):
    """A kind of change that this version does not have."""

    operation: str


DiffChange = TypeAliasType(
    "DiffChange",
    Annotated[
        DiffAdd | DiffDelete | DiffModify | DiffMove | DiffCopy | UnknownDiffChange,
        Tagged("operation", extensible=True),
    ],
)
"""One change, told apart by `operation`."""


class DiffPatch(Model):
    """The text of changes, to be shown."""

    format: DiffPatchFormat
    """Its form."""
    text: str
    """The text."""


class Diff(Model):
    """Changes to files. `changes` decides; `patch` is what a client shows of them."""

    type: Sent[Literal["diff"]] = "diff"
    changes: Annotated[list[DiffChange], Wire(skip_items=True)]
    """What changes, path by path."""
    patch: Lenient[DiffPatch | None] = None
    """The text of some or all of the changes."""
