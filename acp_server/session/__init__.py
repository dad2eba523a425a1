"""What the Agent Client Protocol means on the agent's side: negotiation, sessions, turns, updates, calls to the client.

It stands on `acp_server.peer` and knows nothing of the object that agent authors write against (`acp_server.agent`),
which hands it `Hooks`.
"""
