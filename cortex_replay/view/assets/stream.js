// A stream on its time line: how its pieces came, and a way to see them come again.

import { el, fill } from "./dom.js";
import { countText, plural, secondsText } from "./figures.js";

const BARS = 120;
const TAIL = 4000; // characters that are shown while it plays
const KINDS = { reasoning: ["thought", "reasoning"], text: ["said", "text"], tool: ["called", "tool call"] };
const PACES = [["1", "recorded pace"], ["4", "4 × as fast"], ["0", "at once"]];
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// "first piece after 0.21 s, 48 pieces in 3.4 s, 61 tokens/s"
export function streamFigures(stream, spent) {
  const first = stream.kind.findIndex((kind) => kind !== "event");
  const start = stream.at_ms[Math.max(first, 0)];
  const end = stream.at_ms.at(-1);
  const pieces = stream.kind.filter((kind) => kind !== "event").length;
  const tokens = spent?.completion ?? 0;
  const rate = tokens > 1 && end > start ? `${countText(Math.round((tokens * 1000) / (end - start)))} tokens/s` : null;
  return { first: secondsText(start), length: secondsText(end), pieces, rate };
}

export class StreamPlayer {
  #stream;
  #end;
  #now = 0;
  #pace;
  #frame = 0;
  #last = 0;
  #play = el("button", { type: "button", onclick: () => this.toggle() }, "Play");
  #time = el("output", { class: "clock" });
  #tail = el("div", { class: "text tail", tabindex: "0", role: "group", aria: { label: "What had come by then" } });
  #scrub;
  #bars;

  constructor(stream) {
    this.#stream = stream;
    this.#end = Math.max(stream.at_ms.at(-1), 1);
    this.#pace = calm.matches ? 0 : 1;
    this.#scrub = el("input", { type: "range", min: "0", max: String(Math.ceil(this.#end)), step: "any", aria: { label: "Time" }, oninput: () => {
      this.pause();
      this.#seek(Number(this.#scrub.value));
    } });
    this.#scrub.addEventListener("keydown", (event) => this.#step(event));
    this.#bars = barsOf(stream, this.#end);
    const pace = el("select", { aria: { label: "Pace" }, onchange: () => { this.#pace = Number(pace.value); } },
      PACES.map(([value, words]) => el("option", { value, selected: Number(value) === this.#pace }, words)));
    const kinds = Object.keys(KINDS).filter((kind) => stream.kind.includes(kind));
    this.element = el("div", { class: "stream" },
      el("div", { class: "bars", aria: { hidden: "true" }, onclick: (event) => this.#jump(event) }, this.#bars),
      this.#scrub,
      el("div", { class: "controls" }, this.#play, pace, this.#time,
        kinds.length > 1 ? el("span", { class: "legend" }, kinds.map((kind) => el("span", { class: KINDS[kind][0] }, KINDS[kind][1]))) : null),
      this.#tail);
    this.#seek(this.#end);
  }

  toggle() {
    if (this.#frame !== 0) this.pause();
    else this.#start();
  }

  pause() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    fill(this.#play, "Play");
  }

  #start() {
    if (this.#now >= this.#end) this.#seek(0);
    if (this.#pace === 0) {
      this.#seek(this.#end);
      return;
    }
    fill(this.#play, "Pause");
    this.#last = performance.now();
    this.#frame = requestAnimationFrame((now) => this.#tick(now));
  }

  #tick(now) {
    if (!this.element.isConnected) {
      this.pause();
      return;
    }
    const pace = this.#pace === 0 ? Infinity : this.#pace;
    this.#seek(Math.min(this.#now + (now - this.#last) * pace, this.#end));
    this.#last = now;
    if (this.#now >= this.#end) this.pause();
    else this.#frame = requestAnimationFrame((later) => this.#tick(later));
  }

  #seek(ms) {
    this.#now = ms;
    const { at_ms: times } = this.#stream;
    const shown = countUntil(times, ms);
    this.#scrub.value = String(ms);
    this.#scrub.setAttribute("aria-valuetext", `${secondsText(ms)}, ${plural(shown, "event")}`);
    fill(this.#time, `${secondsText(ms)} of ${secondsText(this.#end)} · ${countText(shown)} of ${plural(times.length, "event")}`);
    const bar = Math.ceil((ms / this.#end) * this.#bars.length);
    for (const [at, one] of this.#bars.entries()) one.classList.toggle("past", at < bar);
    fill(this.#tail, tailOf(this.#stream, shown));
    this.#tail.scrollTop = this.#tail.scrollHeight;
  }

  // The arrows go from piece to piece; a slider's own steps say nothing here.
  #step(event) {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.pause();
    const { at_ms: times } = this.#stream;
    const shown = countUntil(times, this.#now);
    if (by > 0) this.#seek(times[shown] ?? this.#end);
    else this.#seek(times[firstOf(times, times[shown - 1]) - 1] ?? 0);
  }

  #jump(event) {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    this.pause();
    this.#seek(Math.min(Math.max((event.clientX - left) / width, 0), 1) * this.#end);
  }
}

// How many of some rising times are at or before one.
function countUntil(times, ms) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

function firstOf(times, ms) {
  let at = countUntil(times, ms);
  while (at > 0 && times[at - 1] === ms) at -= 1;
  return at;
}

// The last characters of what had come, in spans by kind.
function tailOf(stream, shown) {
  const parts = [];
  let room = TAIL;
  for (let at = shown - 1; at >= 0 && room > 0; at -= 1) {
    const text = stream.delta[at].slice(-room);
    room -= text.length;
    if (text === "") continue;
    if (parts.at(-1)?.kind === stream.kind[at]) parts.at(-1).texts.push(text);
    else parts.push({ kind: stream.kind[at], texts: [text] });
  }
  return parts.reverse().map(({ kind, texts }) => el("span", { class: KINDS[kind]?.[0] }, texts.reverse().join("")));
}

// How much came when: one bar for a slice of time, as high as the root of its characters, by its main kind.
function barsOf(stream, end) {
  const slices = Array.from({ length: BARS }, () => ({ reasoning: 0, text: 0, tool: 0, event: 0 }));
  for (const [at, ms] of stream.at_ms.entries()) {
    const kind = Object.hasOwn(slices[0], stream.kind[at]) ? stream.kind[at] : "event";
    slices[Math.min(Math.floor((ms / end) * BARS), BARS - 1)][kind] += stream.delta[at].length || (kind === "event" ? 0 : 1);
  }
  const sizes = slices.map((slice) => Math.sqrt(slice.reasoning + slice.text + slice.tool));
  const most = Math.max(...sizes, 1);
  return slices.map((slice, at) => {
    const kind = ["text", "reasoning", "tool"].reduce((a, b) => (slice[b] > slice[a] ? b : a));
    const bar = el("i", { class: KINDS[kind][0] });
    bar.style.height = `${sizes[at] === 0 ? 0 : 8 + (92 * sizes[at]) / most}%`;
    return bar;
  });
}
