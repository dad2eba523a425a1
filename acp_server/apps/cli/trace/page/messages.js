// The panel: the messages of what is chosen, the anomalies, the cancels, and one message in full.

const panel = {
  shown: [], chosen: -1, found: new Set(),

  /** The messages of a span. */
  of(span) {
    this.shown = messagesOf(span);
    this.lists.messages.show(this.shown.length);
    this.open('messages');
    document.getElementById('selected').textContent = `${spans.kind[span]}: ${spans.title[span]}`;
  },

  open(name) {
    for (const other of Object.keys(this.lists)) {
      document.getElementById(other).hidden = other !== name;
      document.getElementById(`tab-${other}`).setAttribute('aria-selected', other === name);
    }
    this.lists[name].draw();
  },

  /** Show one message, with the others of the chosen span around it. */
  choose(message) {
    this.chosen = message;
    const place = before(this.shown, message);
    if (this.has(message)) this.lists.messages.reveal(place);
    this.lists.messages.draw();
    pretty(messages.text[message], document.getElementById('text'));
  },

  has(message) { return this.shown[before(this.shown, message)] === message; },

  step(by) {
    const place = this.chosen < 0 ? -1 : before(this.shown, this.chosen);
    const next = this.shown[Math.min(Math.max(place + by, 0), this.shown.length - 1)];
    if (next !== undefined) this.choose(next);
  },

  message(place) {
    const message = this.shown[place];
    const item = link(`#message-${message}`, messages.t[message], message === this.chosen);
    if (this.found.has(message)) item.classList.add('found');
    item.append(element('span', messages.mark[message], `${ARROWS[messages.dir[message]]} ${messages.title[message]}`));
    item.append(element('span', 'excerpt', excerpt(messages.text[message])));
    return item;
  },

  anomaly(place) {
    const { what, why, span, message } = anomalies[place];
    const item = link(`#anomaly-${place}`, messages.t[message]);
    item.append(element('b', '', what), `${spans.title[span]}: ${why}`);
    return item;
  },

  cut(place) {
    const { t, how, target, seconds: took, reached, follows } = cuts[place];
    const item = link(`#cut-${place}`, t);
    const answer = took === null ? 'never answered' : `${seconds(took)} to the answer`;
    item.append(element('span', 'cancel', `${how}: `), `${spans.title[target]}, ${answer}`);
    item.append(follows ? ', which follows from another' : `, reached ${reached.length}`);
    return item;
  },
};

const MOST = 100_000, SHOWN = 200;

/** What a message says, in one line: its words where it has some, else its members. */
function excerpt(text) {
  if (text.length > MOST) return text.slice(0, SHOWN);
  let said;
  try {
    const { params, result, error } = JSON.parse(text);
    said = error ? error.message : params ?? result;
  } catch { said = text; }
  const { update, prompt } = said ?? {};
  const blocks = prompt ?? [update?.content].flat();
  const words = Array.isArray(blocks) ? blocks.map(block => block?.text).filter(word => typeof word === 'string') : [];
  if (words.length) said = words.join(' ');
  else if (update) said = [update.title, update.status].filter(Boolean).join(', ') || update;
  if (said && typeof said === 'object') { const { sessionId, ...rest } = said; said = JSON.stringify(Object.keys(rest).length ? rest : said); }
  return `${said ?? ''}`.replace(/\s+/g, ' ').slice(0, SHOWN);
}

function link(target, t, chosen = false) {
  const item = element('a', chosen ? 'item chosen' : 'item');
  item.href = target;
  item.append(element('time', '', `${t.toFixed(3)} s`));
  return item;
}

/** JSON over several lines, each number and string as it was written; what is not JSON as it is. */
function pretty(text, box) {
  box.replaceChildren();
  let known = true;
  try { JSON.parse(text); } catch { known = false; }
  if (!known) { box.textContent = text; return; }
  let indent = '\n';
  const parts = text.matchAll(/("(?:\\.|[^"\\])*")(\s*:)?|([{[])(\s*[}\]])?|([}\]])|(,)|([^\s{}[\],:"]+)/gs);
  for (const [whole, string, colon, opens, empty, closes, comma] of parts) {
    if (string) box.append(element('span', colon ? 'key' : 'string', string), colon ? ': ' : '');
    else if (empty) box.append(opens + empty.trim());
    else if (opens) { indent += '  '; box.append(opens + indent); }
    else if (closes) { indent = indent.slice(0, -2); box.append(indent + closes); }
    else if (comma) box.append(comma + indent);
    else box.append(element('span', 'other', whole));
  }
}

panel.lists = {
  messages: new List(document.getElementById('messages'), (place) => panel.message(place)),
  anomalies: new List(document.getElementById('anomalies'), (place) => panel.anomaly(place)),
  cuts: new List(document.getElementById('cuts'), (place) => panel.cut(place)),
};
