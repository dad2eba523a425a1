// The conversation, as the page has it, and what is looked up in it.

const data = JSON.parse(document.getElementById('data').textContent);
const { spans, messages, cuts, anomalies } = data;
const COUNT = spans.kind.length;
const TOTAL = Math.max(data.seconds, 1e-3);

const depth = new Uint16Array(COUNT);
for (let i = 1; i < COUNT; i++) depth[i] = depth[spans.parent[i]] + 1;

/** When a span ended; what did not end goes on as long as what it is nested in. */
const ends = new Float64Array(COUNT);
for (let i = 0; i < COUNT; i++) ends[i] = spans.end[i] ?? (i ? Math.max(ends[spans.parent[i]], spans.begin[i]) : TOTAL);

/** The times of the updates that belong to each span. */
const ticks = new Map();
for (let m = 0; m < messages.t.length; m++) {
  if (messages.mark[m] !== 'update') continue;
  const times = ticks.get(messages.owner[m]);
  if (times) times.push(messages.t[m]); else ticks.set(messages.owner[m], [messages.t[m]]);
}

function grouped(list, key) {
  const groups = new Map();
  list.forEach((one, i) => { for (const k of key(one)) { if (groups.has(k)) groups.get(k).push(i); else groups.set(k, [i]); } });
  return groups;
}
/** Which cancels name a span, which reach it, and which anomalies are at it. */
const cutsAt = grouped(cuts, (cut) => [cut.target]);
const cutsThrough = grouped(cuts, (cut) => cut.reached);
const anomaliesAt = grouped(anomalies, (anomaly) => [anomaly.span]);

/** The numbers of the messages of a span and of all that is nested in it. */
function messagesOf(span) {
  const found = [];
  for (let m = 0; m < messages.owner.length; m++) {
    if (messages.owner[m] >= span && messages.owner[m] <= spans.last[span]) found.push(m);
  }
  return found;
}

function seconds(t) {
  const of = Math.abs(t);
  if (of < 1) return `${+(t * 1000).toFixed(of < 0.01 ? 2 : 1)} ms`;
  if (of < 120) return `${+t.toFixed(2)} s`;
  return `${Math.floor(t / 60)} min ${Math.round(t % 60)} s`;
}

/** An element with classes and text. Text is only ever set as text. */
function element(tag, classes = '', text = '') {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text) made.textContent = text;
  return made;
}

/** How many of the sorted times are before t. */
function before(times, t) {
  let low = 0, high = times.length;
  while (low < high) { const middle = (low + high) >> 1; if (times[middle] < t) low = middle + 1; else high = middle; }
  return low;
}
