"""What the updates of version 2 share: a field that is absent, null or a value means three different things.

An update of a message, a tool call, a terminal or a compaction is a patch of what is known under its id (ACP v2,
prompt lifecycle). A field that was never set is left as it was and is not written. A field that was set to None is
cleared, and is written as null. `model_fields_set` tells the two apart.
"""

from typing import Any

from pydantic import SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from acp_server.schema.base import Lenient, Model, attributes


class Patch(Model):
    """A change to something that has an id. Only what is set changes; a None that was set clears."""

    # A value that is not an object counts as absent. The type of `Model` would read it as None, which clears.
    meta: Lenient[dict[str, Any] | None] = None
    """Data of extensions to change, by key: None removes the key, any other value replaces it. None clears them all."""

    @model_serializer(mode="wrap")
    def _write_what_clears(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if not info.exclude_none:  # A plain model_dump: the reader wants to see everything.
            return data
        for key, name in attributes(type(self)).items():
            if name in self.__pydantic_fields_set__ and getattr(self, name) is None:
                data[key if info.by_alias else name] = None
        # A field that this package does not know may be cleared, too.
        data.update((key, None) for key, value in (self.__pydantic_extra__ or {}).items() if value is None)
        return data
