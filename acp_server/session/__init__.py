"""What the Agent Client Protocol means on the agent's side: negotiation, sessions, turns, updates, calls to the client.

How it works:

- An `AgentSide` (`routes`) holds what one connection knows, and says which methods there are. `acp_server.peer` calls
  them.
- What a request changes for the requests behind it is done in the reader, by `register`. So a cancel in the same bytes
  as its prompt finds the turn, and a prompt behind a `session/close` is refused.
- `negotiation` answers `initialize`. `lifecycle` makes, opens, ends and lists sessions. `prompting` makes a `Turn` of
  each prompt, and `settings` takes the user's choices.
- A session and a turn are always in one state of a table (`state`), and one method of each moves it: `Session.move`,
  `Turn.move`. What is refused where follows from the state.
- A client must know a session before it hears of it, and must not hear of a turn behind its answer. So `updates` keeps
  back what is said before the first answer, and a turn that has ended refuses to say more.
- The answer to a prompt follows from why the turn was cancelled, and never from what the stopped handler raised. Saving
  comes before the answer, but a store that fails does not change it.
- `definition` is the agent as its author declared it, and what others do for a session. What an agent asks
  its client for is in `client` and `terminal`.
- `v2` does the same for clients that speak version 2 of the protocol.

It stands on `acp_server.peer` and `acp_server.store`. It does not know the object that agent authors write against
(`acp_server.agent`).
"""
