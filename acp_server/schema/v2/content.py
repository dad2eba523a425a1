"""Content blocks of prompts, messages and tool results (ACP v2, content), and prompts: `session/prompt` and the two
cancels that version 1 also has (ACP v2, prompt lifecycle, cancellation)."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from acp_server.schema import content as v1
from acp_server.schema.base import (
    UNSET,
    Items,
    Lenient,
    LenientItems,
    MaybeItems,
    Model,
    Sent,
    Unknown,
    UnknownTag,
)
from acp_server.schema.types import ByKey, Tagged, UInt64, Uri
from acp_server.schema.v2.types import Base64, Fraction, MediaType, MessageId, RequestId, SessionId
from acp_server.schema.words import OpenEnum

Role = TypeAliasType("Role", Annotated[Literal["assistant", "user"] | str, OpenEnum(extensible=True)])
"""One side of the conversation. Custom roles begin with `_`."""

IconTheme = TypeAliasType("IconTheme", Annotated[Literal["light", "dark"] | str, OpenEnum(extensible=True)])
"""The background for which an icon is drawn. Custom themes begin with `_`."""


class Annotations(v1.Annotations):
    """Hints about the audience and the importance of content."""

    audience: LenientItems[MaybeItems[Role]] = UNSET
    """The intended audience."""
    priority: Lenient[Fraction | None] = None
    """The relative importance of the content, from 0 to 1. A larger number is more important."""


class TextContent(Model):
    """Text, to be shown as Markdown. Every agent accepts it in a prompt."""

    type: Sent[Literal["text"]] = "text"
    text: str
    """The text itself."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the text."""


class ImageContent(Model):
    """An image. In a prompt only if the agent announced `session.prompt.image`."""

    type: Sent[Literal["image"]] = "image"
    data: Base64
    """The image, base64."""
    mime_type: MediaType
    """Its media type, such as `image/png`."""
    uri: Lenient[Uri | None] = None
    """The source of the image."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the image."""


class AudioContent(Model):
    """A recording. In a prompt only if the agent announced `session.prompt.audio`."""

    type: Sent[Literal["audio"]] = "audio"
    data: Base64
    """The recording, base64."""
    mime_type: MediaType
    """Its media type, such as `audio/wav`."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that plays it."""


class Icon(Model):
    """An icon of a resource."""

    src: Uri
    """The URI of the image."""
    mime_type: Lenient[MediaType | None] = None
    """Its media type."""
    sizes: LenientItems[MaybeItems[str]] = UNSET
    """The sizes for which the icon is suitable, such as `48x48` or `any`."""
    theme: Lenient[IconTheme | None] = None
    """The background for which the icon is drawn."""


class ResourceLink(Model):
    """A pointer to something that the receiver can open by itself. Every agent accepts it in a prompt."""

    type: Sent[Literal["resource_link"]] = "resource_link"
    uri: Uri
    """Its URI."""
    name: str
    """A short name, such as the file's."""
    title: Lenient[str | None] = None
    """The title to show."""
    description: Lenient[str | None] = None
    """A short description of its content."""
    icons: LenientItems[MaybeItems[Icon]] = UNSET
    """Icons to show beside the name."""
    mime_type: Lenient[MediaType | None] = None
    """Its media type."""
    size: Lenient[UInt64 | None] = None
    """Its length in bytes."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the link."""


class TextResourceContents(Model):
    """The contents of a resource that is text."""

    uri: Uri
    """The URI of the resource."""
    text: str
    """The whole text."""
    mime_type: Lenient[MediaType | None] = None
    """Its media type."""


class BlobResourceContents(Model):
    """The contents of a resource that is binary."""

    uri: Uri
    """The URI of the resource."""
    blob: Base64
    """The bytes, base64."""
    mime_type: Lenient[MediaType | None] = None
    """Their media type."""


EmbeddedResourceResource = TypeAliasType(
    "EmbeddedResourceResource", Annotated[TextResourceContents | BlobResourceContents, ByKey("text", "blob")]
)
"""The contents of a resource: text or bytes."""


class EmbeddedResource(Model):
    """A resource with its contents. In a prompt only if the agent announced `session.prompt.embeddedContext`."""

    type: Sent[Literal["resource"]] = "resource"
    resource: EmbeddedResourceResource
    """The contents with their URI."""
    annotations: Lenient[Annotations | None] = None
    """Hints for the program that shows the resource."""


class UnknownContentBlock(Unknown):
    """A kind of content that this version does not have. An agent that does not know it refuses a prompt with it."""

    type: UnknownTag


ContentBlock = TypeAliasType(
    "ContentBlock",
    Annotated[
        TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContentBlock,
        Tagged("type", extensible=True),
    ],
)
"""One content block, distinguished by `type`."""


class PromptRequest(Model):
    """Parameters of `session/prompt`: a message of the user."""

    session_id: SessionId
    """The session."""
    prompt: Annotated[Items[ContentBlock], Field(min_length=1)]
    """The user's message. Text and resource links are always allowed, other content if the agent announced it."""
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Identifies the message in all attempts to send it; None if it is sent only once. The agent inserts the message at
    most once, and answers each attempt with the same message id."""


class PromptResponse(Model):
    """Result of `session/prompt`: the message is part of the conversation. The work on it may continue for a long
    time."""

    message_id: MessageId
    """The id of the user message in the conversation."""


class CancelSessionNotification(Model):
    """Parameters of `session/cancel`: cancel the foreground work of this session, and its queued prompts."""

    session_id: SessionId
    """The session."""


class CancelRequestNotification(Model):
    """Parameters of `$/cancel_request`: cancel one request. Either side may send it."""

    request_id: RequestId
    """The id of a request that the sender of this notification has sent."""
