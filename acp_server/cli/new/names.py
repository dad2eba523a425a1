"""The names of a new agent, from the name that the user gives it."""

from __future__ import annotations

import keyword
import re
import sys
import unicodedata
from dataclasses import dataclass
from importlib.util import find_spec

from acp_server.errors import UsageError


@dataclass(frozen=True, slots=True)
class Names:
    """One agent's names."""

    title: str
    """What users read."""
    project: str
    """Of its distribution, its command and its entry in the ACP registry: lowercase, digits and hyphens."""
    module: str
    """What Python imports."""

    @classmethod
    def of(cls, name: str) -> Names:
        """The names for `name`. Raises UsageError for a name without a letter from a to z."""
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        words = re.findall(r"[a-z0-9]+", plain.lower())
        if not re.search(r"[a-z]", "".join(words)):
            raise UsageError(f"{name!r} has no letter from a to z, which the agent's module and command need")
        if words[0][0].isdigit():
            words.insert(0, "agent")
        if _is_taken("_".join(words)):
            words.append("agent")
        spoken = re.findall(r"[^\W_]+", name)
        title = " ".join(word if word.isupper() else word.capitalize() for word in spoken)
        return cls(title, "-".join(words), "_".join(words))


def _is_taken(module: str) -> bool:
    """A module of that name would hide another, or could not be imported."""
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        return True
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return True
    # A namespace without a file is a folder that stands here by chance.
    return spec is not None and spec.origin is not None
