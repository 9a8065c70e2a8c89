// Two sides of a change in rows: what stands beside each other, what is the same on both, and what of that is folded.

import { el } from "./dom.js";
import { countText, plural } from "./figures.js";
import { prettyJson } from "./texts.js";
import { alignLists, comparePieces } from "./words.js";

const SIDE_CONTEXT = 3; // rows that are shown around a change
const LEAST_FOLD = 3; // fewer rows are not worth a fold
const MOST_ROWS = 1000; // that are shown at once
const LONG_PIECE = 4000; // characters of a piece that are shown at once
const LONG_SAME = 400; // the same, of a piece that did not change
const MOST_DEPTH = 60;

// A row is {before, after, isSame}; each side a list of pieces [isChanged, text], or null where it has nothing.

export async function textRows(before, after) {
  if (before === null || after === null) return oneSided(before, after);
  const rows = [];
  let [old, fresh] = [[], []];
  const close = () => {
    const isSame = ![...old, ...fresh].some(([isChanged]) => isChanged);
    rows.push({ before: old, after: fresh, isSame });
    [old, fresh] = [[], []];
  };
  for (const [kind, text] of await comparePieces(before, after)) {
    if (kind === "removed") old.push([true, text]);
    else if (kind === "added") fresh.push([true, text]);
    else {
      const lines = text.split("\n");
      for (const [at, line] of lines.entries()) {
        if (line) {
          old.push([false, line]);
          fresh.push([false, line]);
        }
        if (at < lines.length - 1) close();
      }
    }
  }
  if (old.length || fresh.length) close();
  return rows;
}

function oneSided(before, after) {
  const lines = (before ?? after).split("\n").map((line) => {
    const start = line.search(/\S|$/); // an indent is no change to look at
    return [[false, line.slice(0, start)], [true, line.slice(start)]];
  });
  return lines.map((line) => ({ before: before === null ? null : line, after: after === null ? null : line, isSame: false }));
}

// Two JSON values, pretty and field by field; undefined where a side has none.
export async function valueRows(before, after) {
  const rows = [];
  await addValues(rows, before, after, "", "", "");
  return rows;
}

async function addValues(rows, before, after, indent, name, comma) {
  if (indent.length < 2 * MOST_DEPTH && isTree(before) && isTree(after) && Array.isArray(before) === Array.isArray(after)) {
    const [open, close] = Array.isArray(before) ? "[]" : "{}";
    rows.push(sameRow(`${indent}${name}${open}`));
    const pairs = Array.isArray(before) ? await itemPairs(before, after) : fieldPairs(before, after);
    for (const [at, [label, old, fresh]] of pairs.entries()) {
      await addValues(rows, old, fresh, `${indent}  `, label, at < pairs.length - 1 ? "," : "");
    }
    rows.push(sameRow(`${indent}${close}${comma}`));
    return;
  }
  const texts = [before, after].map((value) => (value === undefined ? null : prettyJson(value)));
  const [old, fresh] = texts.map((text) => text && `${indent}${name}${text.replaceAll("\n", `\n${indent}`)}${comma}`);
  if (old === fresh) for (const line of old.split("\n")) rows.push(sameRow(line));
  else for (const row of await textRows(old, fresh)) rows.push(row);
}

function isTree(value) {
  return typeof value === "object" && value !== null;
}

function fieldPairs(before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const of = (side, name) => (Object.hasOwn(side, name) ? side[name] : undefined);
  return names.map((name) => [`${JSON.stringify(name)}: `, of(before, name), of(after, name)]);
}

// Items that are equal stand beside each other; between them, what goes is paired with what comes. An index is -1
// where a side has nothing.
async function pairItems(before, after) {
  const pairs = [];
  let [gone, come] = [[], []];
  const close = () => {
    for (let at = 0; at < Math.max(gone.length, come.length); at++) pairs.push([gone[at] ?? -1, come[at] ?? -1]);
    [gone, come] = [[], []];
  };
  for (const [kind, i, j] of await alignLists(before, after)) {
    if (kind === "removed") gone.push(i);
    else if (kind === "added") come.push(j);
    else {
      close();
      pairs.push([i, j]);
    }
  }
  close();
  return pairs;
}

async function itemPairs(before, after) {
  const [old, fresh] = [before, after].map((side) => side.map((item) => JSON.stringify(item)));
  return (await pairItems(old, fresh)).map(([i, j]) => ["", before[i], after[j]]);
}

function sameRow(text) {
  return { before: [[false, text]], after: [[false, text]], isSame: true };
}

// Steps of a road, one beside the other.
export async function stepRows(before, after) {
  const pairs = await pairItems(before, after);
  return pairs.map(([i, j]) => {
    const isSame = before[i] === after[j];
    const side = (steps, at) => (at < 0 ? null : [[false, `${at + 1}. `], [!isSame, steps[at]]]);
    return { before: side(before, i), after: side(after, j), isSame };
  });
}

// The rows as a table. A side that no row has is left out.
export function sidesTable(rows, label) {
  const sides = ["before", "after"].filter((side) => rows.some((row) => row[side] !== null));
  const titles = { before: "Before", after: "After" };
  const body = el("tbody");
  body.append(...foldRows(rows).map((one) => (one.rows ? foldedRow(one.rows, sides) : sideRow(one, sides))));
  return el("table", { class: `compared of-${sides.length}`, aria: { label } },
    el("thead", {}, el("tr", {}, sides.map((side) => el("th", { scope: "col" }, titles[side])))), body);
}

function foldRows(rows) {
  const isNear = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (!row.isSame) isNear.fill(1, Math.max(0, at - SIDE_CONTEXT), at + SIDE_CONTEXT + 1);
  });
  const shown = [];
  let fold = [];
  const close = () => {
    if (fold.length < LEAST_FOLD) shown.push(...fold);
    else shown.push({ rows: fold });
    fold = [];
  };
  for (const [at, row] of rows.entries()) {
    if (!isNear[at]) fold.push(row);
    else {
      close();
      shown.push(row);
    }
  }
  close();
  return shown.length <= MOST_ROWS ? shown : [...shown.slice(0, MOST_ROWS), { rows: shown.slice(MOST_ROWS).flatMap((one) => one.rows ?? one) }];
}

function sideRow(row, sides) {
  return el("tr", { class: row.isSame ? "alike" : "differs" }, sides.map((side) =>
    el("td", { class: side === "before" ? "old" : "new" }, row[side] === null ? null : row[side].map((piece) => pieceNodes(piece, side)))));
}

function foldedRow(rows, sides) {
  const isSame = rows.every((row) => row.isSame);
  const said = isSame ? `${countText(rows.length)} lines are the same` : plural(rows.length, "more line");
  const open = (event) => {
    const rest = rows.slice(MOST_ROWS);
    const fresh = rows.slice(0, MOST_ROWS).map((row) => sideRow(row, sides));
    event.target.closest("tr").replaceWith(...fresh, ...(rest.length ? [foldedRow(rest, sides)] : []));
  };
  return el("tr", { class: "fold-row" }, el("td", { colspan: sides.length }, el("button", { type: "button", onclick: open }, `⋯ ${said}`)));
}

const SIDE_MARKS = { before: "del", after: "ins" };

function pieceNodes([isChanged, text], side) {
  const most = isChanged ? LONG_PIECE : LONG_SAME;
  if (text === "") return null;
  if (text.length <= 1.5 * most) return isChanged ? el(SIDE_MARKS[side], {}, text) : text;
  const half = isChanged ? most : most / 2;
  const shown = el(isChanged ? SIDE_MARKS[side] : "span", {}, text.slice(0, half));
  const rest = text.slice(half, isChanged ? undefined : -half);
  const said = `⋯ ${countText(rest.length)} ${isChanged ? "more characters" : "characters are the same"}`;
  const open = (event) => event.target.replaceWith(...moreNodes(rest, isChanged ? SIDE_MARKS[side] : "span"));
  return [shown, el("button", { type: "button", class: "more", onclick: open }, said), isChanged ? null : text.slice(-half)];
}

const MORE_AT_ONCE = 200000;

function moreNodes(text, mark) {
  const rest = text.slice(MORE_AT_ONCE);
  const shown = el(mark, {}, text.slice(0, MORE_AT_ONCE));
  if (!rest) return [shown];
  const open = (event) => event.target.replaceWith(...moreNodes(rest, mark));
  return [shown, el("button", { type: "button", class: "more", onclick: open }, `⋯ ${countText(rest.length)} more characters`)];
}
