// A list of any number of rows, of which only those in sight exist. The page scrolls, not the list.

import { el, fill } from "./dom.js";

const AHEAD = 8; // rows that are made before they come into sight

// new RowList({label, draw, address, opened}): draw(item) gives the children of a row, address(item) where it leads, or
// null, and opened(item) is told when the reader goes there.
export class RowList {
  #items = [];
  #rows = new Map();
  #draw;
  #address;
  #opened;
  #active = 0;
  #height = 0;
  #frame = 0;
  #probe = el("li", { class: "row probe", aria: { hidden: "true" } });
  #watch = new ResizeObserver(() => this.#measure());
  #later = () => { this.#frame ||= requestAnimationFrame(() => { this.#frame = 0; this.#show(); }); };

  constructor({ label, draw, address, opened = () => {} }) {
    this.#draw = draw;
    this.#address = address;
    this.#opened = opened;
    this.element = el("ol", { class: "rows", role: "list", aria: { label }, onfocusin: (event) => this.#note(event), onkeydown: (event) => this.#arrow(event), onclick: (event) => this.#tell(event) });
    this.element.append(this.#probe);
    addEventListener("scroll", this.#later, { passive: true });
    addEventListener("resize", this.#later);
    this.#watch.observe(this.#probe);
  }

  set(items) {
    this.#items = items;
    this.#active = 0;
    this.#clear();
    this.#measure();
  }

  // Move by some rows; the first move goes to the first row in sight.
  move(step) {
    if (this.#items.length === 0) return;
    const isInside = this.element.contains(document.activeElement);
    this.#go(isInside ? this.#active + step : this.#active);
  }

  // Put the reader on an item again.
  goTo(isWanted) {
    const index = this.#items.findIndex(isWanted);
    if (index >= 0) this.#go(index);
  }

  open() {
    if (this.#items.length > 0) this.#rows.get(this.#active)?.firstChild.click();
  }

  stop() {
    removeEventListener("scroll", this.#later);
    removeEventListener("resize", this.#later);
    cancelAnimationFrame(this.#frame);
    this.#watch.disconnect();
  }

  #go(index) {
    this.#active = Math.max(0, Math.min(this.#items.length - 1, index));
    const top = this.element.getBoundingClientRect().top + this.#active * this.#height;
    const bar = document.querySelector("header.top")?.offsetHeight ?? 0;
    if (top < bar) scrollBy(0, top - bar);
    else if (top + this.#height > innerHeight) scrollBy(0, top + this.#height - innerHeight);
    this.#show(true);
    this.#rows.get(this.#active)?.firstChild.focus({ preventScroll: true });
  }

  #arrow(event) {
    const page = Math.max(1, Math.floor(innerHeight / this.#height) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = Object.hasOwn(steps, event.key) ? steps[event.key] : 0;
    if (step === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#go(this.#active + step);
  }

  #indexOf(event) {
    const row = event.target.closest("li");
    return [...this.#rows].find(([, element]) => element === row)?.[0];
  }

  #note(event) {
    this.#active = this.#indexOf(event) ?? this.#active;
    this.#offerActive();
  }

  #tell(event) {
    const index = this.#indexOf(event);
    if (index !== undefined) this.#opened(this.#items[index]);
  }

  #measure() {
    const height = this.#probe.getBoundingClientRect().height;
    if (height === 0) return; // not on the page yet; it is measured again when it is
    if (height !== this.#height) this.#clear();
    this.#height = height;
    this.element.style.height = `${this.#items.length * height}px`;
    this.#show();
  }

  #clear() {
    for (const row of this.#rows.values()) row.remove();
    this.#rows.clear();
  }

  #show(isMoving = false) {
    if (this.#height === 0) return;
    const top = this.element.getBoundingClientRect().top;
    const isInside = isMoving || this.element.contains(document.activeElement);
    const start = Math.max(0, Math.floor(-top / this.#height));
    const end = Math.min(this.#items.length, Math.ceil((innerHeight - top) / this.#height) + AHEAD);
    if (!isInside) this.#active = Math.max(0, Math.min(this.#items.length - 1, start));
    const wanted = new Set();
    for (let index = Math.max(0, start - AHEAD); index < end; index += 1) wanted.add(index);
    if (this.#items.length > 0) wanted.add(this.#active); // whoever stands on it stays there
    for (const [index, row] of this.#rows) {
      if (!wanted.has(index)) {
        row.remove();
        this.#rows.delete(index);
      }
    }
    for (const index of wanted) if (!this.#rows.has(index)) this.#place(index);
    this.#offerActive();
  }

  // In the order of the list, so that a screen reader and the Tab key go through it as the eye does.
  #place(index) {
    const row = this.#make(index);
    row.style.transform = `translateY(${index * this.#height}px)`;
    let after = null;
    let least = Infinity;
    for (const [other, element] of this.#rows) {
      if (other > index && other < least) {
        least = other;
        after = element;
      }
    }
    this.element.insertBefore(row, after);
    this.#rows.set(index, row);
  }

  #make(index) {
    const item = this.#items[index];
    const href = this.#address(item);
    const inside = el(href === null ? "div" : "a", { class: "line", href, tabindex: "-1" });
    return el("li", { class: "row", aria: { setsize: this.#items.length, posinset: index + 1 } }, fill(inside, this.#draw(item)));
  }

  #offerActive() {
    for (const [index, row] of this.#rows) row.firstChild.tabIndex = index === this.#active ? 0 : -1;
  }
}
