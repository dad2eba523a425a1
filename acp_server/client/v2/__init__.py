"""Version 2 of the protocol for a client whose program speaks version 1: translation at the edge of the connection.

    speech       ask: `initialize`, its offer and its answer; Version2: all other requests and their results
    foreground   Foreground: when the work for a prompt is over; the answer to the prompt says only that it began
    updates      Translator: the updates of one session; values that the versions write differently

Loaded only when version 2 is asked for.
"""
