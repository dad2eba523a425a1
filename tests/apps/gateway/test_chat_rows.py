"""Chats of several nodes in one store: whatever they do in whatever order, the row decides."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from acp_server.apps.gateway.nodes import ENDED, Node, _remove
from acp_server.apps.gateway.records import MOVES, RUNNING, Chat, Failure, Ids, Status, TokenUsage
from acp_server.apps.gateway.rows import NotOurs, Occupied, Rows
from acp_server.apps.gateway.store import Store, open_engine

CONVERSATIONS = ["1", "2"]
LATE = Failure(5000, "late")
some = st.integers(0, 99)
nodes = st.integers(0, 1)


class Interleaved(RuleBasedStateMachine):
    """Two nodes that take chats, move them by what they know of them, lose their leases and go on with old numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = open_engine(None)
        self.numbers = [self._join(), self._join()]
        self.gone: set[int] = set()
        self.known: list[tuple[Chat, int]] = []
        """Chats as the nodes that worked for them have seen them last, with the numbers of these nodes."""
        self.ended: dict[str, Chat] = {}
        self.ids = Ids()

    def teardown(self) -> None:
        self.engine.close()

    def _join(self) -> int:
        node = Node(Store(self.engine), Ids(), shared=True, url="", lease_seconds=1000)
        return self.engine.transact(node.join)[0]

    def _row(self, id: str) -> tuple[Chat | None, int | None]:
        def look(rows: Rows) -> tuple[Chat | None, int | None]:
            found = rows.execute("SELECT node FROM chats WHERE id = ?", (id,)).fetchone()
            return rows.chat(id), None if found is None else found[0]

        return self.engine.transact(look)

    def _attempt(self, work: Any) -> bool:
        try:
            self.engine.transact(work)
        except (NotOurs, Occupied):
            return False
        return True

    @rule(node=nodes, conversation=st.sampled_from(CONVERSATIONS))
    def create(self, node: int, conversation: str) -> None:
        chat = Chat(self.ids.new(), conversation, "3", "4", "ada").moved(Status.IN_PROGRESS)
        assert chat is not None
        occupied = any(row.conversation_id == conversation and row.status in RUNNING for row, _ in self._at_work())
        number = self.numbers[node]
        assert self._attempt(lambda rows: rows.add_chat(chat, number)) == (not occupied and number not in self.gone)
        if not occupied and number not in self.gone:
            self.known.append((chat, number))

    @rule(which=some, step=some, done=st.booleans())
    def move(self, which: int, step: int, done: bool) -> None:
        index = which % len(self.known) if self.known else 0
        if not self.known or self.known[index][0].ended:
            return
        chat, number = self.known[index]
        status = sorted(MOVES[chat.status])[step % len(MOVES[chat.status])]
        moved = chat.moved(status, usage=TokenUsage(which))
        assert moved is not None
        row, owner = self._row(chat.id)
        over = done and not MOVES[status]
        if self._attempt(lambda rows: rows.move_chat(chat, moved, number, done=over)):
            assert number not in self.gone
            assert (row, owner) == (chat, number)
            self.known[index] = moved, number
        elif number not in self.gone and (row, owner) == (chat, number):
            assert chat.status is Status.REQUIRES_ACTION

    @rule(which=some)
    def park(self, which: int) -> None:
        waiting = [each for each in self.known if each[0].status is Status.REQUIRES_ACTION]
        if waiting:
            chat, number = waiting[which % len(waiting)]
            owner = self._row(chat.id)
            if self._attempt(lambda rows: rows.move_chat(chat, chat, number, done=True)):
                assert owner in ((chat, number), (chat, None))

    @rule(which=some, node=nodes)
    def adopt(self, which: int, node: int) -> None:
        if not self.known:
            return
        chat, _ = self.known[which % len(self.known)]
        row, owner = self._row(chat.id)
        moved = None if row is None else row.moved(Status.IN_PROGRESS)
        if row is None or moved is None:
            return
        number = self.numbers[node]
        if self._attempt(lambda rows: rows.adopt_chat(row, moved, number)):
            assert owner is None
            assert number not in self.gone
            # A node parks a chat when it ends or has lost its lease, and then forgets what it knew of it.
            self.known = [(each, its) for each, its in self.known if (each.id, its) != (chat.id, number)]
            self.known.append((moved, number))

    @rule(node=nodes)
    def lose(self, node: int) -> None:
        number = self.numbers[node]
        before = [row for row, owner in self._at_work() if owner == number]
        self.engine.transact(lambda rows: _remove(rows, number))
        self.gone.add(number)
        for chat in before:
            row, owner = self._row(chat.id)
            assert row is not None
            assert owner is None
            assert row.last_error == (ENDED if chat.status in RUNNING else chat.last_error)

    @rule(node=nodes)
    def join_again(self, node: int) -> None:
        if self.numbers[node] in self.gone:
            self.numbers[node] = self._join()

    @rule(which=some)
    def end_late(self, which: int) -> None:
        if not self.known:
            return
        chat, number = self.known[which % len(self.known)]
        if chat.status in RUNNING:
            failed = chat.failed(LATE)
            self.engine.transact(lambda rows: rows.leave_chat(failed, number))

    def _at_work(self) -> list[tuple[Chat, int]]:
        def look(rows: Rows) -> list[tuple[Chat, int]]:
            found = [place for conversation in CONVERSATIONS for place in rows.chats_of(conversation)]
            return [(chat, node) for id, node in found if (chat := rows.chat(id)) is not None]

        return self.engine.transact(look)

    @invariant()
    def what_has_ended_stays_as_it_is(self) -> None:
        for chat, _ in self.known:
            row, _ = self._row(chat.id)
            assert row is not None
            if row.ended:
                before = self.ended.setdefault(row.id, row)
                assert (before.status, before.last_error) == (row.status, row.last_error)

    @invariant()
    def one_chat_runs_in_a_conversation_and_no_lost_node_has_one(self) -> None:
        running = [(chat.conversation_id, node) for chat, node in self._at_work() if chat.status in RUNNING]
        assert len({conversation for conversation, _ in running}) == len(running)
        assert not self.gone & {node for _, node in self._at_work()}


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(max_examples=60, stateful_step_count=40)
