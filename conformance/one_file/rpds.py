"""The part of `rpds` that `referencing` and `jsonschema` use, in plain Python: collections that are copied by a change.

The real ones share the unchanged part between two copies, which is faster; here they have almost no items.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")


class HashTrieMap(Mapping[K, V]):
    """A mapping."""

    def __init__(self, value: Mapping[K, V] | Iterable[tuple[K, V]] = (), **more: Any) -> None:
        self._items: dict[Any, Any] = dict(value, **more)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    @classmethod
    def convert(cls, value: Any) -> HashTrieMap[Any, Any]:
        """`value` itself if it has this type already, else converted."""
        return value if isinstance(value, cls) else cls(value)

    def insert(self, key: K, value: V) -> HashTrieMap[K, V]:
        """With one more item."""
        return HashTrieMap({**self._items, key: value})

    def update(self, *others: Any, **more: Any) -> HashTrieMap[K, V]:
        """With the items of others."""
        items = dict(self._items)
        for each in others:
            items.update(each)
        return HashTrieMap({**items, **more})

    def remove(self, key: K) -> HashTrieMap[K, V]:
        """Without an item, which raises KeyError if it is missing."""
        return HashTrieMap({each: self._items[each] for each in self._items if each != self._checked(key)})

    def discard(self, key: K) -> HashTrieMap[K, V]:
        """Without an item, whether it was there or not."""
        return HashTrieMap({each: value for each, value in self._items.items() if each != key})

    def _checked(self, key: K) -> K:
        if key not in self._items:
            raise KeyError(key)
        return key


class HashTrieSet(frozenset[T]):
    """A set."""

    def insert(self, value: T) -> HashTrieSet[T]:
        """With one more value."""
        return HashTrieSet({*self, value})

    def update(self, *others: Iterable[T]) -> HashTrieSet[T]:
        """With the values of others."""
        return HashTrieSet(self.union(*others))

    def remove(self, value: T) -> HashTrieSet[T]:
        """Without a value, which raises KeyError if it is missing."""
        if value not in self:
            raise KeyError(value)
        return self.discard(value)

    def discard(self, value: T) -> HashTrieSet[T]:
        """Without a value, whether it was there or not."""
        return HashTrieSet(self - {value})


class List(tuple[T, ...]):
    """A list."""

    __slots__ = ()

    def push_front(self, value: T) -> List[T]:
        """With a value before all others."""
        return List((value, *self))
