// Searching while the reader types: on the rows that the page has, and in the texts behind them.

import { el } from "./dom.js";
import { plural } from "./figures.js";
import { ask, isFile, load } from "./source.js";

const AT_ONCE_MS = 12; // as long as a search works before it lets the page breathe
const AROUND = 48; // characters before and behind a hit
const MOST_HITS = 3; // of one recording

let searches = 0;

// Every place of the text, whatever its case; a search is no pattern.
export function patternFor(words) {
  return new RegExp(words.trim().replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&").replace(/\s+/g, "\\s+"), "i");
}

// The text with the first hit marked.
export function markHit(text, pattern) {
  const found = pattern === null ? null : pattern.exec(text);
  if (found === null || found[0] === "") return text;
  const end = found.index + found[0].length;
  return [text.slice(0, found.index), el("mark", {}, found[0]), text.slice(end)];
}

// Look for words. show(hits, isDone, note) gets a map from ids to hits, perhaps several times as it grows, and in the end
// what the search has left out, in words. Nothing is shown of a search that a later one has overtaken.
export async function searchFor(words, rows, show) {
  const turn = ++searches;
  const isOver = () => turn !== searches;
  const hits = new Map();
  const pattern = patternFor(words);
  const report = (isDone, left = "") => { if (!isOver()) show(hits, isDone, left); };
  const inTexts = isFile() ? null : searchServer(words, isOver);
  await inSlices(rows, isOver, (row) => { if (pattern.test(rowText(row))) hits.set(row.id, []); });
  report(false);
  if (inTexts === null) {
    const leftOut = await searchTexts(pattern, hits, isOver, () => report(false));
    report(true, leftOut ? `This file has only the start of ${plural(leftOut, "long text")}; the rest is not searched.` : "");
  } else {
    const { found, is_cut: isCut } = await inTexts;
    for (const hit of found) noteHit(hits, hit.id, hit);
    report(true, isCut ? "There is more than this. Type more words to find less." : "");
  }
}

// A file unpacks its texts when the reader is about to type, rather than while they do.
export function prepareSearch() {
  if (isFile()) load("texts").catch(() => {}); // the search says what is wrong
}

export function stopSearch() {
  searches += 1;
}

function rowText(row) {
  return `${row.question}\n${row.answer}\n${row.who}\n${row.key}\n${row.path}\n${row.runs.join("\n")}\n${row.scopes.join("\n")}`;
}

function noteHit(hits, id, hit) {
  const found = hits.get(id) ?? [];
  if (found.length < MOST_HITS) found.push(hit);
  hits.set(id, found);
}

let asking = null;

async function searchServer(words, isOver) {
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  try {
    return await ask(`search?q=${encodeURIComponent(words.trim())}`, mine.signal);
  } catch (error) {
    if (isOver()) return { found: [], is_cut: false };
    throw error;
  }
}

async function searchTexts(pattern, hits, isOver, tell) {
  const { texts, left_out: leftOut } = await load("texts");
  let told = performance.now();
  await inSlices(texts, isOver, ({ where, text, ids }) => {
    const found = pattern.exec(text);
    if (found === null) return;
    const end = found.index + found[0].length;
    const hit = { where, before: text.slice(Math.max(0, found.index - AROUND), found.index), match: found[0], after: text.slice(end, end + 2 * AROUND) };
    for (const id of ids) noteHit(hits, id, hit);
  }, () => {
    if (performance.now() - told < 150) return;
    told = performance.now();
    tell();
  });
  return leftOut;
}

async function inSlices(items, isOver, work, breathe = () => {}) {
  let begun = performance.now();
  for (let at = 0; at < items.length; at += 1) {
    work(items[at]);
    if (at % 16 !== 15 || performance.now() - begun < AT_ONCE_MS) continue;
    await new Promise((resume) => { setTimeout(resume); });
    if (isOver()) return;
    breathe();
    begun = performance.now();
  }
}
