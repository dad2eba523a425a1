// Drives a gateway with the official client: `node main_path.js URL TOKEN`. Each thing that it saw is a line of JSON.
import { ChatEventType, CozeAPI, RoleType } from "@coze/api";

const [baseURL, token] = process.argv.slice(2);
const client = new CozeAPI({ token, baseURL });
const saw = (what, more) => console.log(JSON.stringify({ what, ...more }));
const ask = (text, more) => ({
  bot_id: "1",
  user_id: "u",
  additional_messages: [{ role: RoleType.User, content: text, content_type: "text" }],
  ...more,
});

const streamed = [];
let chat;
for await (const part of client.chat.stream(ask("count 3"))) {
  streamed.push(part.event);
  if (part.event === ChatEventType.CONVERSATION_CHAT_COMPLETED) chat = part.data;
}
saw("stream", { events: streamed, status: chat.status });

const poll = await client.chat.createAndPoll(ask("recall", { conversation_id: undefined }), chat.conversation_id);
saw("poll", { status: poll.chat.status, answer: poll.messages[0].content });

const waiting = await client.chat.createAndPoll(ask("ask files"));
const [call] = waiting.chat.required_action.submit_tool_outputs.tool_calls;
const answers = [];
const outputs = {
  conversation_id: waiting.chat.conversation_id,
  chat_id: waiting.chat.id,
  tool_outputs: [{ tool_call_id: call.id, output: "yes" }],
  stream: true,
};
for await (const part of client.chat.submitToolOutputs(outputs)) {
  if (part.event === ChatEventType.CONVERSATION_MESSAGE_DELTA) answers.push(part.data.content);
}
saw("submit", { asked: call.function.name, answer: answers.join("") });

const running = await client.chat.create(ask("slowly 200 node"));
const cancelled = await client.chat.cancel(running.conversation_id, running.id);
const again = await client.chat.retrieve(running.conversation_id, running.id);
saw("cancel", { status: cancelled.status, later: again.status });
try {
  await client.chat.cancel(running.conversation_id, running.id);
} catch (error) {
  saw("late cancel", { code: error.code });
}

const stranger = new CozeAPI({ token: "pat_wrong", baseURL });
try {
  await stranger.chat.create(ask("echo x"));
} catch (error) {
  saw("wrong token", { kind: error.constructor.name, code: error.code });
}
