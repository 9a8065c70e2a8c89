// The matrix of a sweep: a row for each call, a column for each fault, and each cell with its log.

import { el, fill } from "./dom.js";
import { plural } from "./figures.js";

const VERDICTS = {
  survived: ["ok", "good"],
  failed: ["failed", "bad"],
  missed: ["missed", "bad"],
  hung: ["hung", "bad"],
  "not applicable": ["–", "plain"],
};
const VERDICT_WORDS = {
  survived: "The command survived.",
  failed: "The command failed.",
  missed: "The command asked for something that is not recorded.",
  hung: "The command did not end in time.",
  "not applicable": "The fault did not fit this call, so nothing was tried.",
};

export class SweepMatrix {
  #cells;
  #buttons = new Map();
  #rows = [];
  #current = -1;
  #panel = el("section", { class: "stack", aria: { live: "polite", label: "One run of the sweep" } });

  constructor(sweep) {
    this.#cells = sweep.cells;
    this.keys = { j: () => this.#toNextBad(1), k: () => this.#toNextBad(-1) };
    this.help = [["j  k", "next, previous run that was not survived"], ["↑  ↓  ←  →", "the cell beside it"]];
  }

  elements() {
    const models = this.#indices((cell) => cell.tool === "");
    const tools = this.#indices((cell) => cell.tool !== "");
    return [
      models.length ? this.#matrix("Calls of models", "Call", models, (cell) => String(cell.turn)) : null,
      tools.length ? this.#matrix("Calls of tools", "Call", tools, (cell) => `${cell.turn} ${cell.tool}`) : null,
      this.#panel,
    ];
  }

  // Show the cell of an address; whether there is one.
  select(index) {
    const isThere = Number.isInteger(index) && index >= 0 && index < this.#cells.length;
    this.#current = isThere ? index : -1;
    for (const [other, button] of this.#buttons) {
      button.setAttribute("aria-pressed", String(other === this.#current));
      button.tabIndex = other === Math.max(0, this.#current) ? 0 : -1;
    }
    fill(this.#panel, isThere ? cellDetail(this.#cells[index]) : el("p", { class: "muted" }, "Choose a cell to see how the command ended and what it printed."));
    return isThere;
  }

  #indices(isWanted) {
    return [...this.#cells.keys()].filter((index) => isWanted(this.#cells[index]));
  }

  #matrix(caption, corner, indices, nameOf) {
    const faults = [...new Set(indices.map((index) => this.#cells[index].fault))];
    const rows = new Map();
    for (const index of indices) {
      const name = nameOf(this.#cells[index]);
      if (!rows.has(name)) rows.set(name, new Map());
      rows.get(name).set(this.#cells[index].fault, index);
    }
    for (const row of rows.values()) this.#rows.push(faults.map((fault) => row.get(fault) ?? -1));
    return el("div", { class: "matrix", role: "region", tabindex: "0", aria: { label: caption } }, el("table", { onkeydown: (event) => this.#arrow(event) },
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, corner), faults.map((fault) => el("th", { scope: "col" }, fault)))),
      el("tbody", {}, [...rows].map(([name, row]) => el("tr", {}, el("th", { scope: "row" }, name), faults.map((fault) => el("td", {}, this.#button(row.get(fault)))))))));
  }

  #button(index) {
    if (index === undefined) return null;
    const [words, kind] = VERDICTS[this.#cells[index].verdict];
    const button = el("button", { type: "button", class: `cell ${kind}`, onclick: () => { location.hash = `#/run/${index}`; }, aria: { label: cellTitle(this.#cells[index]), pressed: "false" } }, words);
    this.#buttons.set(index, button);
    return button;
  }

  #arrow(event) {
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    const at = [...this.#buttons].find(([, button]) => button === event.target)?.[0];
    if (at === undefined || (down === 0 && right === 0)) return;
    event.preventDefault();
    let row = this.#rows.findIndex((cells) => cells.includes(at));
    let column = this.#rows[row].indexOf(at);
    do {
      row += down;
      column += right;
    } while (this.#rows[row]?.[column] === -1);
    this.#buttons.get(this.#rows[row]?.[column])?.focus();
  }

  #toNextBad(step) {
    const bad = this.#indices((cell) => VERDICTS[cell.verdict][1] === "bad");
    const next = step > 0 ? bad.find((index) => index > this.#current) : bad.findLast((index) => index < this.#current);
    if (next === undefined) return;
    location.hash = `#/run/${next}`;
    this.#buttons.get(next).focus();
  }
}

function cellTitle(cell) {
  const call = cell.tool === "" ? `Call ${cell.turn}` : `Tool call ${cell.turn} (${cell.tool})`;
  return `${call}, ${cell.fault}: ${cell.verdict}`;
}

function cellDetail(cell) {
  const status = cell.status === null ? null : ` It ended with status ${cell.status}`;
  return [
    el("h3", {}, cellTitle(cell)),
    el("p", {}, VERDICT_WORDS[cell.verdict], status === null ? null : `${status}, after ${plural(cell.calls, "call")}.`),
    el("h4", {}, "What it printed at the end"),
    cell.log === "" ? el("p", { class: "muted" }, "Nothing was kept.") : el("pre", { class: "log", tabindex: "0" }, cell.log),
    cell.again === "" ? null : [el("h4", {}, "To see it again"), el("pre", {}, cell.again)],
  ];
}
