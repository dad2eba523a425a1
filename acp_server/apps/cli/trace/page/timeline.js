// The tree of spans against time: a row each, its bar, its ticks, and the cancels that cut through it.

const tree = document.getElementById('tree');
const overlay = tree.querySelector('canvas');
const axis = document.querySelector('#axis canvas');
const ARROWS = { in: '→', out: '←' };

const timeline = {
  from: 0, to: TOTAL, chosen: 0, rows: [], place: new Int32Array(COUNT), closed: new Set(), found: new Set(),
  onchoose() {}, oncut() {},

  /** What can be seen of the tree, after something was opened or closed. */
  lay() {
    this.rows = [];
    this.place.fill(-1);
    for (let i = 0; i < COUNT; i = this.closed.has(i) ? spans.last[i] + 1 : i + 1) {
      this.place[i] = this.rows.length;
      this.rows.push(i);
    }
    this.list.show(this.rows.length);
  },

  x(t) { return (t - this.from) / (this.to - this.from) * this.width; },

  choose(span, reveal = true) {
    for (let above = spans.parent[span], hidden = false; above >= 0; above = spans.parent[above]) {
      if (this.closed.delete(above)) hidden = true;
      if (above === 0 && hidden) this.lay();
    }
    this.chosen = span;
    tree.setAttribute('aria-activedescendant', `span-${span}`);
    if (reveal) this.list.reveal(this.place[span]);
    this.list.draw();
    this.onchoose(span);
  },

  toggle(span) {
    if (spans.last[span] === span) return;
    if (!this.closed.delete(span)) this.closed.add(span);
    this.lay();
  },

  // -- time

  look(from, to) {
    const least = 1e-6, wide = Math.max(least, Math.min(to - from, TOTAL * 1.04));
    this.from = Math.min(Math.max(from, -TOTAL * 0.02), TOTAL * 1.02 - wide);
    this.to = this.from + wide;
    this.list.draw();
  },
  fit() { this.look(-TOTAL * 0.02, TOTAL * 1.02); },
  zoom(factor, at = 0.5) {
    const t = this.from + (this.to - this.from) * at;
    this.look(t - (t - this.from) * factor, t + (this.to - t) * factor);
  },
  pan(part) { const by = (this.to - this.from) * part; this.look(this.from + by, this.to + by); },
  zoomTo(span) {
    const room = Math.max((ends[span] - spans.begin[span]) * 0.15, 1e-5);
    this.look(spans.begin[span] - room, ends[span] + room);
  },
  /** Move so that a moment is in sight. */
  seek(t) {
    const wide = this.to - this.from;
    if (t < this.from || t > this.to) this.look(t - wide / 2, t + wide / 2);
  },

  // -- drawing

  row(place) {
    const span = this.rows[place], kind = spans.kind[span];
    const row = element('div', `row ${kind}${this.found.has(span) ? ' found' : ''}`);
    row.id = `span-${span}`;
    row.dataset.span = span;
    row.setAttribute('role', 'treeitem');
    row.setAttribute('aria-level', depth[span] + 1);
    row.setAttribute('aria-selected', span === this.chosen);
    const has = spans.last[span] > span;
    if (has) row.setAttribute('aria-expanded', !this.closed.has(span));
    const name = row.appendChild(element('div', 'name'));
    name.style.paddingLeft = `${6 + Math.min(depth[span], 12) * 14}px`;
    name.appendChild(element('span', 'twist', has ? (this.closed.has(span) ? '▸' : '▾') : ''));
    if (spans.dir[span]) name.appendChild(element('span', 'way', ARROWS[spans.dir[span]]));
    name.appendChild(document.createTextNode(spans.title[span]));
    if (kind !== 'connection' && kind !== 'session') {
      name.appendChild(element('time', '', spans.end[span] === null ? 'no end' : seconds(ends[span] - spans.begin[span])));
    }
    const bad = anomaliesAt.get(span);
    if (bad) name.appendChild(element('span', 'bad', `! ${anomalies[bad[0]].what}${bad.length > 1 ? ` +${bad.length - 1}` : ''}`));
    name.title = spans.title[span];
    this.bars(row.appendChild(element('div', 'lane')), span);
    return row;
  },

  bars(lane, span) {
    const left = Math.max(this.x(spans.begin[span]), -10), right = Math.min(this.x(ends[span]), this.width + 10);
    if (right < 0 || left > this.width) return;
    const bar = lane.appendChild(element('div', `bar ${spans.kind[span]} ${spans.state[span]}`));
    bar.style.left = `${left}px`;
    bar.style.width = `${Math.max(right - left, 2)}px`;
    const through = cutsThrough.get(span);
    if (through) {
      const at = Math.max(this.x(cuts[through[0]].t), -10);
      const after = lane.appendChild(element('div', 'after'));
      after.style.left = `${at}px`;
      after.style.width = `${Math.max(right - at, 2)}px`;
    }
    for (const number of cutsAt.get(span) ?? []) {
      const cut = cuts[number], took = cut.seconds === null ? 'never answered' : `${seconds(cut.seconds)} to the answer`;
      const flag = lane.appendChild(element('button', 'cut', `${cut.follows ? 'withdrawn' : 'cancel'}: ${took}`));
      const end = this.x(cut.seconds === null ? cut.t : cut.t + cut.seconds);
      // On the side on which there is room for it.
      if (end < this.width - 200) flag.style.left = `${Math.max(end, 0)}px`;
      else flag.style.right = `${Math.max(this.width - this.x(cut.t), 0)}px`;
      flag.tabIndex = -1;
      flag.dataset.cut = number;
    }
  },

  /** Ticks and the lines of the cancels, over the rows that are in sight. */
  draw(first, last) {
    const height = tree.clientHeight, top = tree.scrollTop;
    const pen = sized(overlay, tree.clientWidth, height);
    pen.clearRect(0, 0, tree.clientWidth, height);
    pen.save();
    pen.beginPath();
    pen.rect(labelWidth(), 0, this.width, height);
    pen.clip();
    pen.translate(labelWidth(), -top);
    pen.fillStyle = colour('--tick');
    const drawn = new Set();
    for (let place = first; place < last; place++) {
      const span = this.rows[place];
      const until = this.closed.has(span) ? spans.last[span] : span;
      for (let i = span; i <= until; i++) if (ticks.has(i)) this.drawTicks(pen, ticks.get(i), place * HEIGHT + 16);
      for (const number of cutsThrough.get(span) ?? []) drawn.add(number);
    }
    pen.strokeStyle = colour('--cut');
    pen.lineWidth = 1.5;
    for (const number of drawn) {
      const { t, reached } = cuts[number], x = this.x(t);
      const places = reached.map((span) => this.place[span]).filter((place) => place >= 0);
      pen.beginPath();
      pen.moveTo(x, places[0] * HEIGHT + 1);
      pen.lineTo(x, places[places.length - 1] * HEIGHT + HEIGHT - 3);
      pen.stroke();
    }
    pen.restore();
    this.drawAxis();
  },

  /** At most one tick a pixel, however many there are. */
  drawTicks(pen, times, y) {
    const step = (this.to - this.from) / this.width;
    for (let i = before(times, this.from); i < times.length && times[i] <= this.to;) {
      const x = Math.floor(this.x(times[i]));
      pen.fillRect(x, y, 1, 5);
      i = Math.max(i + 1, before(times, this.from + (x + 1) * step));
    }
  },

  drawAxis() {
    const pen = sized(axis, this.width, 24), wide = this.to - this.from;
    let step = 10 ** Math.floor(Math.log10(wide / (this.width / 110)));
    step *= [1, 2, 5, 10].find((by) => step * by / wide * this.width >= 80) ?? 10;
    pen.clearRect(0, 0, this.width, 24);
    pen.fillStyle = colour('--dim');
    pen.font = '11px system-ui, sans-serif';
    for (let t = Math.ceil(this.from / step) * step; t < this.to; t += step) {
      const x = this.x(t);
      pen.fillRect(x, 17, 1, 7);
      pen.fillText(moment(t, step), x + 3, 14);
    }
  },
};

/** A time of the axis, with as many digits as tell it from the next one. */
function moment(t, step) {
  const [by, unit] = step < 1e-3 ? [1e6, 'µs'] : step < 0.5 ? [1e3, 'ms'] : [1, 's'];
  return `${(t * by).toFixed(step * by < 1 ? 1 : 0).replace(/^-0$/, '0')} ${unit}`;
}

/** A canvas for so many pixels of the page, as fine as the screen is. */
function sized(canvas, width, height) {
  const fine = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * fine) || canvas.height !== Math.round(height * fine)) {
    canvas.width = Math.round(width * fine);
    canvas.height = Math.round(height * fine);
    canvas.style.width = `${width}px`;
    if (canvas !== axis) canvas.style.height = `${height}px`, canvas.style.marginBottom = `${-height}px`;
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(fine, 0, 0, fine, 0, 0);
  return pen;
}

const probe = document.body.appendChild(element('i', 'probe'));
/** What a variable of the style sheet is now, light or dark. */
function colour(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
function labelWidth() { return document.querySelector('#axis .label').offsetWidth; }

timeline.list = new List(tree, (place) => timeline.row(place), (first, last) => timeline.draw(first, last));
const drawNow = timeline.list.drawNow.bind(timeline.list);
timeline.list.drawNow = () => { timeline.width = Math.max(tree.clientWidth - labelWidth(), 50); drawNow(); };

tree.addEventListener('click', (event) => {
  const cut = event.target.closest('.cut'), row = event.target.closest('.row');
  if (cut) timeline.oncut(+cut.dataset.cut);
  else if (row) {
    timeline.choose(+row.dataset.span, false);
    if (event.target.closest('.twist')) timeline.toggle(+row.dataset.span);
  }
});
tree.addEventListener('dblclick', (event) => {
  const row = event.target.closest('.row');
  if (row && !event.target.closest('.twist')) timeline.zoomTo(+row.dataset.span);
});
tree.addEventListener('wheel', (event) => {
  const at = (event.clientX - tree.getBoundingClientRect().left - labelWidth()) / timeline.width;
  if (event.ctrlKey || event.altKey || event.metaKey) timeline.zoom(1.002 ** event.deltaY, Math.min(Math.max(at, 0), 1));
  else if (event.shiftKey || event.deltaX) timeline.pan((event.deltaX || event.deltaY) / timeline.width);
  else return;
  event.preventDefault();
}, { passive: false });
tree.addEventListener('pointermove', (event) => {
  if (event.buttons === 1 && event.target.closest('.lane')) timeline.pan(-event.movementX / timeline.width);
});
