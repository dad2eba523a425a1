"""What checks and writes a type is built when it is needed first, which may be in two threads at once."""

import threading
from typing import Annotated, Any

import pytest
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from acp_server.schema import base
from acp_server.schema.base import Record, build_all


class Watched:
    """A lock that says how many threads want it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.wanted = threading.Semaphore(0)

    def __enter__(self) -> None:
        self.wanted.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_two_threads_that_need_a_type_build_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = Watched()
    monkeypatch.setattr(base, "_building", lock)
    builds: list[str] = []

    class Slow:
        def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
            builds.append(threading.current_thread().name)
            if len(builds) == 1:
                # Until the other thread is there, too.
                assert lock.wanted.acquire(timeout=20)
                assert lock.wanted.acquire(timeout=20)
            return handler(source)

    class Thing(Record):
        name: Annotated[str, Slow()]

    written: list[Any] = []
    threads = [threading.Thread(target=lambda: written.append(Thing(name="a").to_wire())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert written == [{"name": "a"}] * 2
    assert len(builds) == 1


def test_what_a_record_contains_can_be_built_by_itself() -> None:
    class Inner(Record):
        name: str

    class Outer(Record):
        inner: list[Inner]

    outer = Outer.from_wire({"inner": [{"name": "a"}]})
    assert build_all(outer)
    assert Inner.__pydantic_complete__
    assert not build_all(outer)
