// Joins the timeline with the panel: search, keys, links.

const byId = (id) => document.getElementById(id);
const search = { hits: [], at: -1 };

timeline.onchoose = (span) => panel.of(span);
timeline.oncut = (number) => go(`#cut-${number}`);

/** Go to a place: `#span-1`, `#message-2`, `#anomaly-3`, `#cut-4`. Places are links, so that they can be kept. */
function go(hash) {
  if (location.hash === hash) follow(); else location.hash = hash;
}
function follow() {
  const [, kind, digits] = /^#(span|message|anomaly|cut)-(\d+)$/.exec(location.hash) ?? [];
  const number = Number(digits);
  if (kind === 'span' && number < COUNT) timeline.choose(number);
  else if (kind === 'message' && number < messages.t.length) showMessage(number);
  else if (kind === 'anomaly' && number < anomalies.length) {
    showMessage(anomalies[number].message, anomalies[number].span);
  } else if (kind === 'cut' && number < cuts.length) {
    const { target, message, t, seconds: took } = cuts[number];
    const wide = timeline.to - timeline.from;
    if (took && took < wide / 50) timeline.look(t - took * 3, t + took * 5); else timeline.seek(t);
    showMessage(message, target);
  }
}
/** `span`: what is chosen for it; the messages of what is chosen already stay, if this is one of them. */
function showMessage(message, span = panel.has(message) ? timeline.chosen : messages.owner[message]) {
  if (span !== timeline.chosen) timeline.choose(span);
  timeline.seek(messages.t[message]);
  panel.open('messages');
  panel.choose(message);
}

// -- search

function find() {
  const words = byId('search').value.toLowerCase();
  search.hits = [];
  search.at = -1;
  timeline.found.clear();
  if (words) {
    for (let m = 0; m < messages.text.length; m++) {
      if (messages.text[m].toLowerCase().includes(words) || messages.title[m].toLowerCase().includes(words)) {
        search.hits.push(m);
        timeline.found.add(messages.owner[m]);
      }
    }
  }
  panel.found = new Set(search.hits);
  say();
  timeline.list.draw();
  panel.lists.messages.draw();
}
function say() {
  const { hits, at } = search;
  byId('hits').textContent = !byId('search').value ? '' : hits.length ? `${at + 1} of ${hits.length}` : 'nothing found';
}
function hit(by) {
  const { hits } = search;
  if (!hits.length) return;
  search.at = search.at < 0 && by < 0 ? hits.length - 1 : (search.at + by + hits.length) % hits.length;
  say();
  showMessage(hits[search.at], messages.owner[hits[search.at]]);
}

// -- keys

function next(kind, count, by) {
  if (!count) return;
  const [, now] = new RegExp(`^#${kind}-(\\d+)$`).exec(location.hash) ?? [];
  go(`#${kind}-${now === undefined ? (by > 0 ? 0 : count - 1) : (+now + by + count) % count}`);
}
function move(by) {
  const { rows, place, chosen } = timeline;
  const span = rows[Math.min(Math.max(place[chosen] + by, 0), rows.length - 1)];
  timeline.choose(span);
}
function inwards() {
  const { chosen, closed } = timeline;
  if (closed.has(chosen)) timeline.toggle(chosen);
  else if (spans.last[chosen] > chosen) timeline.choose(chosen + 1);
}
function outwards() {
  const { chosen, closed } = timeline;
  if (spans.last[chosen] > chosen && !closed.has(chosen)) timeline.toggle(chosen);
  else if (spans.parent[chosen] >= 0) timeline.choose(spans.parent[chosen]);
}
function theme() {
  const dark = getComputedStyle(probe).colorScheme === 'dark' || (
    document.documentElement.style.colorScheme === '' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.style.colorScheme = dark ? 'light' : 'dark';
  timeline.list.draw();
}
const KEYS = {
  ArrowDown: () => move(1), ArrowUp: () => move(-1), ArrowRight: inwards, ArrowLeft: outwards,
  PageDown: () => move(20), PageUp: () => move(-20), Home: () => move(-COUNT), End: () => move(COUNT),
  Enter: () => timeline.zoomTo(timeline.chosen),
  '+': () => timeline.zoom(0.5), '=': () => timeline.zoom(0.5), '-': () => timeline.zoom(2), 0: () => timeline.fit(),
  h: () => timeline.pan(-0.2), l: () => timeline.pan(0.2),
  '/': () => byId('search').select(), n: () => hit(1), N: () => hit(-1),
  c: () => next('cut', cuts.length, 1), C: () => next('cut', cuts.length, -1),
  a: () => next('anomaly', anomalies.length, 1), A: () => next('anomaly', anomalies.length, -1),
  j: () => panel.step(1), k: () => panel.step(-1), t: theme, '?': () => byId('help').showModal(),
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || byId('help').open) return;
  if (event.target === byId('search')) {
    if (event.key === 'Enter') hit(event.shiftKey ? -1 : 1);
    else if (event.key === 'Escape') { event.target.value = ''; find(); tree.focus(); }
    else return;
  } else if (KEYS[event.key] && !(event.key === 'Enter' && event.target.matches('a, button'))) KEYS[event.key]();
  else return;
  event.preventDefault();
});

// -- the page

const acts = {
  previous: () => hit(-1), next: () => hit(1), in: KEYS['+'], out: KEYS['-'], fit: KEYS[0], theme, keys: KEYS['?'],
  'tab-messages': () => panel.open('messages'), 'tab-anomalies': () => panel.open('anomalies'), 'tab-cuts': () => panel.open('cuts'),
};
for (const [id, act] of Object.entries(acts)) byId(id).addEventListener('click', act);
byId('search').addEventListener('input', find);
window.addEventListener('hashchange', follow);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => timeline.list.draw());

const turns = spans.kind.filter((kind) => kind === 'turn').length;
const many = (count, noun) => `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
const when = new Date(data.started * 1000).toISOString().replace('T', ' ').slice(0, 19);
byId('summary').textContent = [when, seconds(data.seconds), many(messages.t.length, 'message'), many(turns, 'turn'),
  many(cuts.length, 'cancel')].join(' · ');
byId('tab-anomalies').textContent = many(anomalies.length, 'anomaly').replace('anomalys', 'anomalies');
byId('tab-cuts').textContent = many(cuts.length, 'cancel');
panel.lists.anomalies.show(anomalies.length);
panel.lists.cuts.show(cuts.length);
timeline.lay();
timeline.fit();
timeline.choose(0);
if (anomalies.length) panel.open('anomalies');
follow();
