"""Content blocks: what prompts, messages and tool results are made of (protocol: content). And prompts:
`session/prompt`, its stop reason, and the two cancels (protocol: prompt turn, cancellation).

The same shapes as in the Model Context Protocol, so that a tool's output can be passed on as it is.
"""

from typing import Annotated, ClassVar, Literal

from typing_extensions import TypeAliasType

from acp_server.schema.base import (
    UNSET,
    Items,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    Sent,
    Sparse,
    Unknown,
    UnknownTag,
)
from acp_server.schema.types import (
    Base64Text,
    ByKey,
    Double,
    Int64,
    MediaTypeName,
    RequestId,
    SessionId,
    Tagged,
    UInt64,
    UriText,
)
from acp_server.schema.words import OpenEnum

Role = TypeAliasType("Role", Annotated[Literal["assistant", "user"] | str, OpenEnum()])
"""One side of the conversation."""


class Annotations(Model):
    """Hints on who content is for and how much it matters."""

    audience: LenientItems[MaybeItems[Role]] = UNSET
    """Whom the content is meant for."""
    last_modified: Lenient[str | None] = None
    """When the resource behind the content last changed, ISO 8601."""
    priority: Lenient[Double | None] = None
    """Its importance next to other content; larger is more important."""


class TextContent(Model):
    """Text, to be shown as Markdown. Every agent accepts it in a prompt."""

    type: Sent[Literal["text"]] = "text"
    text: str
    """The text itself."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the text."""


class ImageContent(Model):
    """An image. In a prompt only if the agent announced `promptCapabilities.image`."""

    type: Sent[Literal["image"]] = "image"
    data: Base64Text
    """The image, base64."""
    mime_type: MediaTypeName
    """Its media type, such as `image/png`."""
    uri: Lenient[UriText | None] = None
    """Where the image came from."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the image."""


class AudioContent(Model):
    """A recording. In a prompt only if the agent announced `promptCapabilities.audio`."""

    type: Sent[Literal["audio"]] = "audio"
    data: Base64Text
    """The recording, base64."""
    mime_type: MediaTypeName
    """Its media type, such as `audio/wav`."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that plays it."""


class ResourceLink(Model):
    """A pointer to something that the receiver can open by itself. Every agent accepts it in a prompt."""

    type: Sent[Literal["resource_link"]] = "resource_link"
    uri: UriText
    """Where it is."""
    name: str
    """A short name, such as the file's."""
    title: Lenient[str | None] = None
    """A name made for display."""
    description: Lenient[str | None] = None
    """A few words on what it holds."""
    mime_type: Lenient[MediaTypeName | None] = None
    """Its media type."""
    size: Lenient[Int64 | None] = None
    """Its length in bytes."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the link."""


class TextResourceContents(Model):
    """The contents of a resource that is text."""

    uri: UriText
    """Where the resource is."""
    text: str
    """The whole text."""
    mime_type: Lenient[MediaTypeName | None] = None
    """Its media type."""


class BlobResourceContents(Model):
    """The contents of a resource that is binary."""

    uri: UriText
    """Where the resource is."""
    blob: Base64Text
    """The bytes, base64."""
    mime_type: Lenient[MediaTypeName | None] = None
    """Their media type."""


class UnknownResourceContents(Unknown):
    """The contents of a resource in a form that this version does not have."""

    uri: str


EmbeddedResourceResource = TypeAliasType(
    "EmbeddedResourceResource",
    Annotated[TextResourceContents | BlobResourceContents | UnknownResourceContents, ByKey("text", "blob")],
)
"""The contents of a resource: text or bytes."""


class EmbeddedResource(Model):
    """A resource with its contents. In a prompt only if the agent announced `embeddedContext`."""

    type: Sent[Literal["resource"]] = "resource"
    resource: EmbeddedResourceResource
    """The contents and where they are from."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the resource."""


class UnknownContentBlock(Unknown):
    """A kind of content that this version does not have."""

    type: UnknownTag


ContentBlock = TypeAliasType(
    "ContentBlock",
    Annotated[
        TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContentBlock,
        Tagged("type"),
    ],
)
"""One piece of content, told apart by `type`."""


StopReason = TypeAliasType(
    "StopReason",
    Annotated[Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] | str, OpenEnum()],
)
"""Why a turn ended: `cancelled` answers the client's cancel, `refusal` takes the prompt out of the context."""


class PromptRequest(Model):
    """Parameters of `session/prompt`: the user says something, and a turn begins."""

    session_id: SessionId
    """The session."""
    prompt: Items[ContentBlock]
    """What the user says. Text and resource links always, other content as the agent announced."""


class Usage(Model):
    """The tokens that a turn has cost."""

    total_tokens: UInt64
    """All of them."""
    input_tokens: UInt64
    """Of what the model read."""
    output_tokens: UInt64
    """Of what the model wrote."""
    thought_tokens: Lenient[UInt64 | None] = None
    """Of what the model thought; None if that is not known, as in the next two."""
    cached_read_tokens: Lenient[UInt64 | None] = None
    """Of the input, those that came from a cache."""
    cached_write_tokens: Lenient[UInt64 | None] = None
    """Of the input, those that went into a cache."""


class PromptResponse(Model):
    """Result of `session/prompt`: the turn is over."""

    stop_reason: StopReason
    """Why it ended."""
    usage: Lenient[Usage | None] = None
    """What it has cost."""


class CancelNotification(Model):
    """Parameters of `session/cancel`: stop the turn of this session. Its prompt answers `cancelled`."""

    session_id: SessionId
    """The session."""


class CancelRequestNotification(Sparse, Model):
    """Parameters of `$/cancel_request`: stop working on one request. Either side sends it."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"request_id"})

    request_id: RequestId
    """The id of a request that the sender of this notification has made."""
