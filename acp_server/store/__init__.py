"""What is kept of sessions between connections: the records, a store in memory, a store in a SQLite file.

How it works:

- A session is a `SessionRecord` with a `TurnRecord` for each turn (`records`). It is the live object: a turn writes
  into its own record while it runs.
- What is said becomes JSON once, when it is said (`transcript`), and stays in that form. So neither the end of a turn
  nor a save has to encode it again.
- A store has four methods (`SessionStore`, in `memory`): save, load, list, delete. A save may be done at once, or
  awaited. `TurnJournal` is for a store that keeps a turn from its beginning, in case the program dies.
- `SqliteStore` (`sqlite_store`) works in a thread on one file that several programs share. The statements are in
  `sqlite_tables`, what is in a row in `encoding`, and what all our files have in common in `sqlite_file`.
- What is written has a version, and every later version of this package reads it.

A store keeps and finds. What becomes of a session is the matter of `acp_server.session`.
"""
