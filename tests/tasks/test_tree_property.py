"""Any order of opening, nesting, running, cancelling, letting be and closing keeps the tree's promises."""

from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.tasks.cause import Cause
from acp_server.tasks.tree import NOTHING, Node

pytestmark = pytest.mark.anyio

ACTIONS = ["open", "child", "child", "run", "finish", "cut", "cut", "stop_cancelling", "close"]
STEPS = st.tuples(st.sampled_from(ACTIONS), st.integers(0, 30), st.sampled_from(Cause))
"""What is done, to which node (counted round), with which cause."""


@dataclass(eq=False)
class Model:
    """What a node should be like."""

    node: Node
    parent: "Model | None"
    cause: Cause | None = None
    closed: bool = False
    running: anyio.Event | None = None
    result: Any = None
    cut_calls: int = 0
    born_cut: bool = False
    children: list["Model"] = field(default_factory=list)

    def cancel(self, cause: Cause) -> bool:
        if self.closed or self.cause is not None:
            return False
        self._spread(cause)
        return True

    def close(self) -> None:
        if self.closed:
            return
        if self.running is not None:
            self.cancel(Cause.FINISHED)
        for child in self.children:
            child.cancel(Cause.FINISHED)
        self.closed = True
        if self.parent is not None:
            self.parent.children.remove(self)

    def size(self) -> int:
        return sum(1 + child.size() for child in self.children)

    def _spread(self, cause: Cause) -> None:
        if self.cause is None:
            self.cause = cause
            for child in self.children:
                child._spread(cause)


@settings(max_examples=120)
@given(st.lists(STEPS, max_size=25))
async def test_the_tree_keeps_its_promises_in_any_order(steps: list[tuple[str, int, Cause]]) -> None:
    tree = Node(None, "connection")
    root = Model(tree, None)
    models = [root]

    def add(node: Node, parent: Model) -> None:
        model = Model(node, parent, parent.cause, born_cut=parent.cause is not None)
        parent.children.append(model)
        models.append(model)

        def was_cancelled(node: Node) -> None:
            assert node is model.node
            assert node.cause is not None
            model.cut_calls += 1

        node.on_cancel = was_cancelled

    async def run(model: Model) -> None:
        go = anyio.Event()
        model.running = go
        model.result = await model.node.run(go.wait)
        model.running = None

    async with anyio.create_task_group() as group:
        for step, which, cause in steps:
            model = models[which % len(models)]
            node = model.node
            if step == "open" and not root.closed:
                add(tree.child("open"), root)
            elif step == "child":
                if model.closed:
                    with pytest.raises(RuntimeError):
                        node.child("late")
                else:
                    add(node.child("nested"), model)
            elif step == "run" and model.running is None:
                if model.cause is not None or model.closed:
                    assert await node.run(pytest.fail, "it ran") == (NOTHING, None)
                else:
                    group.start_soon(run, model)
                    await anyio.wait_all_tasks_blocked()
            elif step == "finish" and model.running is not None:
                model.running.set()
                await anyio.wait_all_tasks_blocked()
                assert model.result == (None, None)
            elif step == "cut":
                assert node.cancel(cause) == model.cancel(cause)
            elif step == "stop_cancelling":
                node.stop_cancelling()
            elif step == "close" and model is not root:
                node.close()
                model.close()
            await anyio.wait_all_tasks_blocked()
            _check(models, tree, root)
        for model in models[1:]:
            model.node.close()
            model.close()
        if root.running is not None:
            root.running.set()
    assert tree.size == 0
    assert all(model.running is None for model in models)
    assert not tree.children


def _check(models: list[Model], tree: Node, root: Model) -> None:
    for model in models:
        node = model.node
        # The first cause stands, and reaches what is nested.
        assert (node.cause, node.closed) == (model.cause, model.closed)
        assert model.cut_calls == (model.cause is not None and not model.born_cut and model is not root)
        # What was cancelled does not run, and what was not cancelled does.
        if model.cause is not None:
            assert model.running is None
        if not model.closed:
            # Closed nodes are gone.
            assert set(node.children or ()) == {child.node for child in model.children}
    assert tree.size == root.size()
