"""Returns signatures of an author's functions whose annotations may name undefined types.

Since Python 3.14 annotations are evaluated when they are read. A name that only type checkers import, or that is
defined further down, stays text, as with `from __future__ import annotations`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, get_args


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return `inspect.signature`, in which an annotation that cannot be evaluated is its text. Raises the same
    errors."""
    try:
        return inspect.signature(function)
    except Exception:
        if sys.version_info < (3, 14):
            raise
    import annotationlib

    signature = inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    written = inspect.signature(function, annotation_format=annotationlib.Format.STRING).parameters

    def is_known(annotation: Any) -> bool:
        return not isinstance(annotation, annotationlib.ForwardRef) and all(map(is_known, get_args(annotation)))

    parameters = [
        parameter if is_known(parameter.annotation) else written[name]
        for name, parameter in signature.parameters.items()
    ]
    return signature.replace(parameters=parameters)


__all__ = ["signature_of"]
