"""The Coze v3 chat API over any agent: programs written for that API talk to an ACP agent instead (extra: `gateway`).

    app             the routes, and endpoints, which read a request and answer it
    server          uvicorn, what signals do, the end
    listener        how many connections there are, and which one makes room
    connection      one connection, how long it may be silent, and how strict the form of its requests is
    access          log ids, the log of requests, and numbers for a monitor
    check           every agent started once
    gateway         the parts below, put together
    auth            tokens, what they permit, whose they are
    bodies          what requests carry; limits bounds it
    errors          the documented codes, and the envelope of every answer
    events          server-sent events and those who listen to them
    chats           the chats that live, and the moves that requests make
    records         what is kept of chats and conversations; a chat's states and the one function that moves it
    live_chat       a chat while it lives: events in order, questions, the ending; knows no agent
    update_queue    what the agent says and asks while its chat waits for tool outputs
    reply           from an agent's updates to messages
    questions       an agent's questions as tool calls, and tool outputs as answers
    prompt_turn     a chat's turn on its agent; how many chats may wait for tool outputs
    bots            the processes of the agents, and their sessions
    conversations   whose they are, their sections, which session knows which message
    messages        messages, and what they are as content for an agent
    store           where all of it is kept
    ids             ids in decimal digits

It speaks to agents through `acp_server.client` alone.
"""
