"""The agent's side of the Agent Client Protocol: negotiation, sessions, turns, updates, requests to the client.

How it works:

- An `AgentSide` (`routes`) has the state of one connection and the table of its methods. `acp_server.peer` calls them.
- The part of a request that affects later requests runs in the reader, in its `register`. So a cancel in the same bytes
  as its prompt finds the turn, and a prompt after a `session/close` is refused.
- `negotiation` answers `initialize`. `lifecycle` creates, opens and ends sessions, and `catalogue` lists them.
  `prompting` makes a turn of each prompt. `choosing` applies the user's choices to the `settings` of a session.
- A session and a turn are always in one state of a table (`state`), and one method of each changes it:
  `LiveSession.move`, `LiveTurn.move`. The state decides which requests are refused.
- A client must know a session before it gets updates of it, and gets no updates of a turn after the response to its
  prompt. So `updates` holds updates until the session is open, and refuses the updates of a turn that has ended.
- The cause of a cancel decides the response to a prompt, and not the exception of the handler. The session is saved
  before the response; a store that fails does not change the response.
- `definition` is the agent as its author declared it, with the protocols of the parts that serve a session. `client`
  and `terminal` have the requests to the client.
- `v2` does the same for clients of version 2 of the protocol.

This package imports `acp_server.peer` and `acp_server.store`. It does not import the object that agent authors use
(`acp_server.agent`).
"""
