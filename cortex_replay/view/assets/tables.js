// Tables, and lists of figures, that every screen may have.

import { el, fill } from "./dom.js";
import { countText } from "./figures.js";

const LONGEST_NAME = 120;

// heads are [name, kind]: "number" for figures, "wide" for what a phone leaves out, "" for words. A cell is a text or an
// element. A column in which no cell says anything is left out.
export function tableOf(caption, allHeads, rows, most = 8) {
  const columns = [...allHeads.keys()].filter((at) => at === 0 || rows.some((cells) => cells[at] !== ""));
  const heads = columns.map((at) => allHeads[at]);
  const body = el("tbody");
  const draw = (number) => fill(body, rows.slice(0, number).map((cells) => el("tr", {}, columns.map((at) => (
    at === 0 ? el("th", { scope: "row", class: "name" }, cells[at]) : el("td", { class: allHeads[at][1] }, cells[at]))))));
  draw(most);
  const table = el("table", {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads.map(([name, kind]) => el("th", { scope: "col", class: kind }, name)))),
    body);
  return el("div", { class: "table" }, table, rows.length > most ? moreButton(rows.length, most, draw) : null);
}

function moreButton(total, most, draw) {
  let number = most;
  const button = el("button", { type: "button", class: "quiet more", onclick: () => {
    number = number >= total ? most : Math.min(total, Math.max(100, number * 4));
    draw(number);
    fill(button, words());
  } });
  const words = () => (number >= total ? "Show fewer" : `Show ${number === most && total <= 100 ? "all" : "more of"} ${countText(total)}`);
  return fill(button, words());
}

// [[name, value], …] as large figures; what has no value is left out.
export function figureList(pairs) {
  return el("dl", { class: "figures" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value, note]) => el("div", {}, el("dt", {}, name), el("dd", {}, value, note ? [" ", el("small", {}, note)] : null))));
}

// A name that fits into a line or two.
export function shortName(name) {
  return name.length <= LONGEST_NAME ? name : `${name.slice(0, LONGEST_NAME / 2)}…${name.slice(-LONGEST_NAME / 2)}`;
}

// The name of a run or a test, with what it means where a reader cannot know.
export function storyName({ id, name }) {
  return name === "before" && id.startsWith("run-") ? "before (recorded without a run)" : name;
}

// A path or the name of a test, which may break behind its separators.
export function breakable(name) {
  return shortName(name).split(/(?<=\/|::|_(?=\w))/).flatMap((part, at) => (at === 0 ? [part] : [el("wbr"), part]));
}

export function badge(kind, words) {
  return el("span", { class: `badge ${kind}` }, words);
}
