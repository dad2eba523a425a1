"""Content blocks of prompts, messages and tool results (protocol: content), and prompts: `session/prompt`, its stop
reason, and the two cancels (protocol: prompt turn, cancellation).

Content blocks have the same form as in the Model Context Protocol, so that a tool's output can be passed on
unchanged.
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
    """Hints about the audience and the importance of content."""

    audience: LenientItems[MaybeItems[Role]] = UNSET
    """The intended audience."""
    last_modified: Lenient[str | None] = None
    """When the content's resource last changed, ISO 8601."""
    priority: Lenient[Double | None] = None
    """The relative importance of the content. A larger number is more important."""


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
    """The source of the image."""
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
    """Its URI."""
    name: str
    """A short name, such as the file's."""
    title: Lenient[str | None] = None
    """The title to show."""
    description: Lenient[str | None] = None
    """A short description of its content."""
    mime_type: Lenient[MediaTypeName | None] = None
    """Its media type."""
    size: Lenient[Int64 | None] = None
    """Its length in bytes."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the link."""


class TextResourceContents(Model):
    """The contents of a resource that is text."""

    uri: UriText
    """The URI of the resource."""
    text: str
    """The whole text."""
    mime_type: Lenient[MediaTypeName | None] = None
    """Its media type."""


class BlobResourceContents(Model):
    """The contents of a resource that is binary."""

    uri: UriText
    """The URI of the resource."""
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
    """The contents with their URI."""
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
"""One content block, distinguished by `type`."""


StopReason = TypeAliasType(
    "StopReason",
    Annotated[Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] | str, OpenEnum()],
)
"""Why a turn ended. `cancelled`: the client cancelled it. `refusal`: the prompt and the updates after it are not part
of the context."""


class PromptRequest(Model):
    """Parameters of `session/prompt`: a message of the user begins a turn."""

    session_id: SessionId
    """The session."""
    prompt: Items[ContentBlock]
    """The user's message. Text and resource links are always allowed, other content if the agent announced it."""


class Usage(Model):
    """The tokens that a turn used."""

    total_tokens: UInt64
    """The total."""
    input_tokens: UInt64
    """Input tokens of the model."""
    output_tokens: UInt64
    """Output tokens of the model."""
    thought_tokens: Lenient[UInt64 | None] = None
    """Tokens that the model used for thinking; None if unknown. The next two members are also None if unknown."""
    cached_read_tokens: Lenient[UInt64 | None] = None
    """Input tokens that were read from a cache."""
    cached_write_tokens: Lenient[UInt64 | None] = None
    """Input tokens that were written to a cache."""


class PromptResponse(Model):
    """Result of `session/prompt`: the turn has ended."""

    stop_reason: StopReason
    """Why it ended."""
    usage: Lenient[Usage | None] = None
    """The tokens that it used."""


class CancelNotification(Model):
    """Parameters of `session/cancel`: cancel the turn of this session. Its prompt is answered with `cancelled`."""

    session_id: SessionId
    """The session."""


class CancelRequestNotification(Sparse, Model):
    """Parameters of `$/cancel_request`: cancel one request. Either side may send it."""

    NULLABLE: ClassVar[frozenset[str]] = frozenset({"request_id"})

    request_id: RequestId
    """The id of a request that the sender of this notification has sent."""
