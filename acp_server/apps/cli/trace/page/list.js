// A list of any length of which only what is in sight is made.

const HEIGHT = 24;

class List {
  /** `make` makes the element for an index; `after` is told the range that is in sight. */
  constructor(box, make, after = () => {}) {
    Object.assign(this, { box, make, after, count: 0, drawing: false });
    this.items = box.appendChild(element('div', 'items'));
    box.addEventListener('scroll', () => this.draw());
    new ResizeObserver(() => this.draw()).observe(box);
  }

  show(count) {
    this.count = count;
    this.items.style.height = `${count * HEIGHT}px`;
    this.draw();
  }

  /** Draw at the next frame, once, however often it is asked for. */
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => { this.drawing = false; this.drawNow(); });
  }

  drawNow() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - 2);
    const last = Math.min(this.count, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + 2);
    const made = [];
    for (let i = first; i < last; i++) {
      const item = this.make(i);
      item.style.top = `${i * HEIGHT}px`;
      made.push(item);
    }
    this.items.replaceChildren(...made);
    this.after(first, last);
  }

  reveal(index) {
    const top = index * HEIGHT, { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + HEIGHT > scrollTop + clientHeight) this.box.scrollTop = top - clientHeight / 3;
    this.draw();
  }
}
