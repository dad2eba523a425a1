"""Version 2 of the protocol for a client whose program speaks version 1: translation at the edge of the connection.

    speech       Version2: requests and their results, once the agent has answered `initialize` with 2
    handshake    `initialize`: what is offered, and the answer as version 1 has it
    foreground   Foreground: when the work for a prompt is over; the answer to the prompt says only that it began
    updates      Translator: the updates of one session
    values       forms of values that the versions write differently

Loaded only when version 2 is asked for.
"""
