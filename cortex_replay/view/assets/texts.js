// Texts of any length: a start that is read at once, the rest in pieces; values of JSON; a copy of either.

import { el, fill } from "./dom.js";
import { plural, sizeText } from "./figures.js";
import { announce } from "./keys.js";

const START = 4000; // characters that are shown at once
const STEP = 64 * 1024; // that a click adds
const PIECE = 8 * 1024; // of one element, which the browser lays out only when it is near

// A text in a box. What follows its start is a click away.
export function textBox(text, { start = START, kind = "" } = {}) {
  const box = el("div", { class: `text ${kind}` });
  const first = text.length <= start * 1.25 ? text.length : breakAt(text, start);
  box.append(...piecesOf(text, 0, first, "piece"));
  if (first < text.length) addMore(box, text, first);
  return box;
}

function addMore(box, text, from) {
  let at = from;
  const words = () => `Show ${text.length - at > STEP ? `${sizeText(STEP)} of ${sizeText(text.length - at)}` : sizeText(text.length - at)} more`;
  const button = el("button", { type: "button", class: "quiet more", onclick: () => {
    const end = text.length - at > STEP ? breakAt(text, at + STEP) : text.length;
    button.before(...piecesOf(text, at, end, "piece far"));
    at = end;
    if (at >= text.length) button.remove();
    else fill(button, words());
  } }, words());
  box.append(button);
}

function piecesOf(text, from, to, kind) {
  const made = [];
  for (let at = from; at < to;) {
    const end = to - at > PIECE ? breakAt(text, at + PIECE) : to;
    // A line feed at the end of an element shows as nothing: the next element begins on a new line anyway.
    made.push(el("div", { class: kind }, text.slice(at, text[end - 1] === "\n" && end < text.length ? end - 1 : end)));
    at = end;
  }
  return made;
}

// The last place before an end where a line or a word ends; never within a character.
function breakAt(text, end) {
  const line = text.lastIndexOf("\n", end - 1) + 1;
  if (line > end - PIECE / 2) return line;
  const word = text.lastIndexOf(" ", end - 1) + 1;
  if (word > end - PIECE / 2) return word;
  const code = text.charCodeAt(end - 1);
  return code >= 0xd800 && code < 0xdc00 ? end + 1 : end;
}

// Elements for many things: some at once, and more at each click. Of what was said in order the last matter most.
export function someOf(items, make, word, { most = 40, isFromEnd = false } = {}) {
  let left = isFromEnd ? items.slice(0, Math.max(items.length - most, 0)) : items.slice(most);
  const first = (isFromEnd ? items.slice(left.length) : items.slice(0, most)).map(make);
  if (left.length === 0) return first;
  const words = () => `Show ${left.length > most ? `${most} of ` : ""}${plural(left.length, isFromEnd ? word : `more ${word}`)}${isFromEnd ? " before" : ""}`;
  const button = el("button", { type: "button", class: "quiet more", onclick: () => {
    const next = (isFromEnd ? left.slice(-most) : left.slice(0, most)).map(make);
    left = isFromEnd ? left.slice(0, -most) : left.slice(most);
    if (isFromEnd) button.after(...next);
    else button.before(...next);
    if (left.length === 0) button.remove();
    else fill(button, words());
  } }, words());
  return isFromEnd ? [button, ...first] : [...first, button];
}

// A value: fields of an object one by one, with texts as texts; anything deeper as JSON.
export function valueBox(value) {
  if (value === null || typeof value !== "object") return textBox(plainText(value), { kind: "code" });
  const names = Array.isArray(value) ? [] : Object.keys(value);
  if (names.length === 0) return textBox(prettyJson(value), { kind: "code" });
  return el("dl", { class: "fields" }, someOf(names, (name) => el("div", {}, el("dt", {}, name),
    el("dd", {}, textBox(plainText(value[name]), { kind: typeof value[name] === "string" ? "" : "code", start: 1500 }))), "field"));
}

export function plainText(value) {
  return typeof value === "string" ? value : prettyJson(value);
}

export function prettyJson(value) {
  return JSON.stringify(value, null, 2) ?? "";
}

// A line that opens to something which is made when it is first wanted.
export function foldLine(summary, make, { open = false, kind = "" } = {}) {
  let isMade = false;
  const place = el("div", { class: "folded" });
  const details = el("details", { class: kind }, el("summary", {}, summary), place);
  const build = () => {
    if (isMade || !details.open) return;
    isMade = true;
    fill(place, make());
  };
  details.addEventListener("toggle", build);
  if (open) {
    details.open = true;
    build();
  }
  return details;
}

export function copyButton(text, name) {
  return el("button", { type: "button", class: "quiet small", onclick: () => copyText(text, name), aria: { label: `Copy ${name}` } }, "Copy");
}

// A page without the permission, or from a plain file, still copies what is selected.
async function copyText(text, name) {
  const wanted = typeof text === "function" ? text() : text;
  try {
    await navigator.clipboard.writeText(wanted);
    announce(`Copied ${name}`);
  } catch {
    announce(copySelected(wanted) ? `Copied ${name}` : "This browser does not let a page copy. Select the text instead.");
  }
}

function copySelected(text) {
  const back = document.activeElement;
  const field = el("textarea", { class: "unseen", readonly: true, aria: { hidden: "true" } });
  field.value = text;
  document.body.append(field);
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  back?.focus?.({ preventScroll: true });
  return isDone;
}

// A text that the page has, as a file on the reader's disk.
export function saveText(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  const link = el("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
