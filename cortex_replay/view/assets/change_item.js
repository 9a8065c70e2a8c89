// One recording, or one road, that changed: what differs in sentences, then both sides.

import { el, fill } from "./dom.js";
import { countText, plural } from "./figures.js";
import { sidesTable, stepRows, textRows, valueRows } from "./sides.js";
import { badge } from "./tables.js";
import { prettyJson } from "./texts.js";
import { TIERS } from "./tiers.js";

const CHANGE_WORDS = { changed: "changed", added: "added", removed: "removed", replaced: "replaces another", road: "another way" };
const SHORT_VALUE = 80; // characters; longer values stand side by side
const MOST_DIFFERENCES = 12;
const NO_ANSWER = { text: "", reasoning: "", tool_calls: [], parsed: null, finish_reason: null, status: null };

// links(scope) gives the address of a conversation, or null; isDone and onDone keep the tick "reviewed".
export function changeItem(item, { links = () => null, isDone = false, onDone = null } = {}) {
  const title = el("h4", { tabindex: "-1" }, el("span", { class: "title" }, nameOf(item)));
  const body = el("div", { class: "both" });
  const details = el("details", {}, el("summary", {}, sidesLabel(item)), body);
  details.addEventListener("toggle", () => details.open && !body.hasChildNodes() && showSides(item, body, 5));
  const article = el("article", { class: `change of-${item.tier}${isDone ? " done" : ""}`, "data-item": item.id, aria: { label: nameOf(item) } },
    el("header", {}, el("p", { class: "badges" }, tierBadge(item.tier), badge("plain", CHANGE_WORDS[item.change])),
      title, onDone && doneBox(item, isDone, onDone)),
    aboutLine(item, links),
    item.why ? el("p", { class: "why" }, `In place of another: ${item.why}.`) : null,
    differenceList(item),
    hasSides(item) ? details : null);
  return article;
}

// A rewording is one line until a reader wants more.
export function wordsItem(item, options) {
  const body = el("div");
  const details = el("details", { class: "reworded", "data-item": item.id },
    el("summary", {}, el("span", { class: "title" }, nameOf(item)), " ", el("span", { class: "muted" }, item.who)), body);
  details.addEventListener("toggle", () => {
    if (!details.open || body.hasChildNodes()) return;
    const both = el("div", { class: "both" });
    fill(body, aboutLine(item, options.links), item.why ? el("p", { class: "why" }, `In place of another: ${item.why}.`) : null, both);
    showSides(item, both, 4);
  });
  return details;
}

function nameOf(item) {
  return item.title || item.path || item.id;
}

function tierBadge(tier) {
  return badge(TIERS[tier].colour, TIERS[tier].one);
}

function doneBox(item, isDone, onDone) {
  const box = el("input", { type: "checkbox", checked: isDone, onchange: () => onDone(item, box.checked), aria: { label: `reviewed: ${nameOf(item)}` } });
  return el("label", { class: "done-box" }, box, " reviewed");
}

function aboutLine(item, links) {
  const scopes = item.scopes.map((scope) => {
    const address = links(scope);
    return address === null ? el("span", { class: "scope", "data-scope": scope }, scope) : el("a", { class: "scope", href: address }, scope);
  });
  const parts = [item.who, item.key && el("code", { title: item.key }, item.key.slice(0, 12)), item.path && el("code", { class: "path" }, item.path)];
  return el("p", { class: "about" }, [...parts, ...scopes].filter(Boolean).flatMap((part, at) => (at ? [" · ", part] : [part])));
}

function differenceList({ differences, tier }) {
  if (differences.length === 0) return null;
  const differenceLine = (difference) => oneDifference(difference, difference.tier !== tier);
  const list = el("ul", { class: "differences" }, differences.slice(0, MOST_DIFFERENCES).map(differenceLine));
  const rest = differences.slice(MOST_DIFFERENCES);
  if (rest.length) {
    const open = (event) => {
      event.target.closest("li").remove();
      list.append(...rest.map(differenceLine));
    };
    list.append(el("li", {}, el("button", { type: "button", class: "more", onclick: open }, plural(rest.length, "more difference"))));
  }
  return list;
}

function oneDifference(difference, isOfOtherTier) {
  const { before, after, kind } = difference;
  const line = el("li", {}, isOfOtherTier ? [tierBadge(difference.tier), " "] : null, el("span", { class: "sentence" }, markedSentence(difference)));
  if (isToldWhole(difference)) return line;
  if ([before, after].every((value) => JSON.stringify(value).length <= SHORT_VALUE)) {
    line.append(": ", valueMark("del", before), el("span", { aria: { label: "is now" } }, " → "), valueMark("ins", after));
    return line;
  }
  const place = el("div", { class: "both" });
  line.append(place);
  const isText = typeof before === "string" && typeof after === "string";
  const rows = isText ? textRows(before, after) : valueRows(before ?? undefined, after ?? undefined);
  rows.then((found) => fill(place, sidesTable(found, difference.place || kind)));
  return line;
}

function valueMark(tag, value) {
  return value === null ? el("span", { class: "muted" }, "nothing") : el(tag, {}, JSON.stringify(value));
}

// Whether the sentence says all there is to say.
function isToldWhole({ kind, tier, before, after, text }) {
  if (tier === "words" || kind === "road") return true;
  return [before, after].every((value) => value === null || typeof value === "boolean" || placeIn(text, value, 0) !== null);
}

// A value as a sentence may have it.
function spellings(value) {
  return typeof value === "string" ? [JSON.stringify(value), value] : [JSON.stringify(value)];
}

// Where a sentence has a value, and how it spells it: 39 does not stand in "39.00".
function placeIn(text, value, from) {
  for (const said of spellings(value).filter(Boolean)) {
    for (let at = text.indexOf(said, from); at >= 0; at = text.indexOf(said, at + 1)) {
      const isInner = /^[\w.]/.test(said) && /[\w."]/.test(text[at - 1] ?? " ");
      const isCut = /[\w.]$/.test(said) && /[\w."]/.test(text[at + said.length] ?? " ");
      if (!isInner && !isCut) return [at, said];
    }
  }
  return null;
}

// The sentence, with what it was and what it is marked, if that stands in it in this order.
function markedSentence(difference) {
  const { before, after, text } = difference;
  const find = (value, from) => (value === null || typeof value === "boolean" ? null : placeIn(text, value, from));
  const old = find(before, 0);
  const fresh = find(after, old ? old[0] + old[1].length : 0);
  if (!isToldWhole(difference) || (!old && !fresh)) return [text];
  const parts = [];
  let at = 0;
  for (const [tag, found] of [["del", old], ["ins", fresh]]) {
    if (!found) continue;
    parts.push(text.slice(at, found[0]), el(tag, {}, found[1]));
    at = found[0] + found[1].length;
  }
  return [...parts, text.slice(at)];
}

function hasSides(item) {
  return item.change === "road" ? roadOf(item) !== undefined : item.before.length + item.after.length > 0;
}

function sidesLabel(item) {
  if (item.change === "road") return "The road, turn by turn";
  return item.change === "added" ? "The answer" : item.change === "removed" ? "The answer it had" : "Both sides";
}

// level is that of the headings within.
async function showSides(item, place, level) {
  fill(place, el("p", { class: "muted", role: "status" }, "Comparing…"));
  const parts = item.change === "road" ? await roadParts(item) : await answerParts(item, level);
  fill(place, parts.length ? parts : el("p", { class: "muted" }, "There is nothing to show of it."));
}

async function roadParts(item) {
  const { before, after } = roadOf(item);
  return [sidesTable(await stepRows(before, after), "Turns before and after")];
}

// The tools of each turn on both sides; a road that is too long for a document is none.
function roadOf(item) {
  return item.differences.find((one) => one.kind === "road" && Array.isArray(one.before) && Array.isArray(one.after));
}

async function answerParts(item, level) {
  const found = [];
  const most = Math.max(item.before.length, item.after.length);
  for (let at = 0; at < most; at++) {
    if (most > 1) found.push(el(`h${level}`, { class: "side-answer" }, `Answer ${at + 1}`));
    const [before, after] = asStructured(item.before[at], item.after[at]);
    for (const part of ANSWER_PARTS) {
      const [old, fresh] = [part.of(before ?? NO_ANSWER), part.of(after ?? NO_ANSWER)];
      if (old === undefined && fresh === undefined) continue;
      const rows = await part.rows(before && old, after && fresh);
      found.push(el(`h${most > 1 ? level + 1 : level}`, { class: "side-title" }, part.title), ...cutNotes(part, before, after, sidesTable(rows, part.title)));
    }
  }
  return found;
}

const rowsOfTexts = (old, fresh) => textRows(old === undefined ? null : old, fresh === undefined ? null : fresh);
const ANSWER_PARTS = [
  { title: "Failure", of: (answer) => answer.status ?? undefined, rows: valueRows },
  { title: "Tool calls", of: (answer) => (answer.tool_calls.length ? answer.tool_calls.map(({ name, arguments: given }) => ({ name, arguments: given })) : undefined), rows: valueRows },
  { title: "Structured output", of: (answer) => answer.parsed ?? undefined, rows: valueRows },
  { title: "Words", isText: true, of: (answer) => (isSpelledOut(answer) ? undefined : answer.text || undefined), rows: rowsOfTexts },
  { title: "Reasoning", of: (answer) => answer.reasoning || undefined, rows: rowsOfTexts },
];

// Both answers, with JSON of one that stands in its text alone, since it breaks its schema: else it would be compared
// with nothing.
function asStructured(...answers) {
  if (!answers.some((answer) => (answer?.parsed ?? null) !== null)) return answers;
  return answers.map((answer) => {
    if (answer === undefined || answer.parsed !== null) return answer;
    try {
      return { ...answer, parsed: JSON.parse(answer.text) };
    } catch {
      return answer;
    }
  });
}

// Whether the text is nothing but the JSON that is shown already.
function isSpelledOut(answer) {
  if (answer.parsed === null || answer.parsed === undefined) return false;
  try {
    return prettyJson(JSON.parse(answer.text)) === prettyJson(answer.parsed);
  } catch {
    return false;
  }
}

function cutNotes(part, before, after, table) {
  const [ahead, behind] = [0, 1].map((end) => Math.max(before?.left_out?.[end] ?? 0, after?.left_out?.[end] ?? 0));
  if (!part.isText || ahead + behind === 0) return [table];
  const note = (words) => el("p", { class: "muted cut" }, words);
  return [
    ahead ? note(`${countText(ahead)} characters before this are the same; this page leaves them out.`) : null,
    table,
    behind ? note(`This page leaves out ${countText(behind)} characters behind this.`) : null,
  ].filter(Boolean);
}
