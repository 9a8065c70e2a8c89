// Where two texts differ, word by word. The work is done in slices, so that a page with two texts of 5 MB stays usable.

const SLICE_MS = 10;
const MOST_EDITS = 800; // words; a stretch with more of them is shown as replaced, which reads better anyway
const SMALL_TEXT = 20000; // characters; longer texts are compared by line first
const A_WORD = /\n|[^\S\n]+|[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]|[\p{L}\p{N}\p{M}_]+|./gsu;

// Says when work has lasted so long that the page must get its turn.
class WorkSlice {
  constructor() {
    this.start = performance.now();
  }

  isOver() {
    return performance.now() - this.start > SLICE_MS;
  }

  async rest() {
    await new Promise((resume) => setTimeout(resume));
    this.start = performance.now();
  }
}

// The pieces of two texts in order: [kind, text], where kind is "same", "removed" or "added".
export async function comparePieces(before, after) {
  const slice = new WorkSlice();
  const start = sharedStart(before, after);
  const end = sharedEnd(before, after, start);
  const pieces = [["same", before.slice(0, start)]];
  const old = before.slice(start, before.length - end);
  const fresh = after.slice(start, after.length - end);
  if (slice.isOver()) await slice.rest();
  for (const piece of await compareMiddles(old, fresh, slice)) pieces.push(piece);
  pieces.push(["same", end ? before.slice(-end) : ""]);
  return calmPieces(joinPieces(pieces));
}

// Which items of two lists stand for each other: [kind, index before, index after] for each, in order.
export async function alignLists(before, after) {
  const slice = new WorkSlice();
  const edits = (await findEdits(before, after, slice)) ?? replaceAll(before.length, after.length);
  const found = [];
  for (const [kind, i, j, length] of edits) {
    for (let at = 0; at < length; at++) {
      if (kind === "same") found.push([kind, i + at, j + at]);
      else found.push(kind === "removed" ? [kind, i + at, -1] : [kind, -1, j + at]);
    }
  }
  return found;
}

function sharedStart(a, b) {
  const most = Math.min(a.length, b.length);
  let at = 0;
  while (at < most && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  if (at === a.length && at === b.length) return at;
  const blank = Math.max(a.lastIndexOf(" ", at - 1), a.lastIndexOf("\n", at - 1));
  return at === 0 ? 0 : at - blank < 200 ? blank + 1 : at - Number(isLowHalf(a, at) || isLowHalf(b, at));
}

function sharedEnd(a, b, start) {
  const most = Math.min(a.length, b.length) - start;
  let length = 0;
  while (length < most && a.charCodeAt(a.length - 1 - length) === b.charCodeAt(b.length - 1 - length)) length++;
  const from = a.length - length;
  const blank = a.slice(from, from + 200).search(/\s/);
  return blank >= 0 ? length - blank : length - Number(length > 0 && isLowHalf(a, from));
}

function isLowHalf(text, at) {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00;
}

async function compareMiddles(before, after, slice) {
  if (before === after) return [["same", before]];
  if (before === "" || after === "") return [["removed", before], ["added", after]];
  if (before.length + after.length <= SMALL_TEXT) return compareWords(before, after, slice);
  const old = before.split(/(?<=\n)/);
  const fresh = after.split(/(?<=\n)/);
  const pieces = [];
  let i = 0;
  let j = 0;
  for (const [nextOld, nextNew] of [...await findAnchors(old, fresh, slice), [old.length, fresh.length]]) {
    if (slice.isOver()) await slice.rest();
    if (i < nextOld || j < nextNew) pieces.push(...await compareLines(old.slice(i, nextOld), fresh.slice(j, nextNew), slice));
    if (nextOld < old.length) pieces.push(["same", old[nextOld]]);
    i = nextOld + 1;
    j = nextNew + 1;
  }
  return pieces;
}

// Lines that stand once in either text and in the same order in both: the longest such sequence.
async function findAnchors(before, after, slice) {
  const places = new Map();
  for (const [i, line] of before.entries()) {
    places.set(line, places.has(line) ? null : { i, j: -1 });
    if (i % 500 === 0 && slice.isOver()) await slice.rest();
  }
  for (const [j, line] of after.entries()) {
    const place = places.get(line);
    if (place) places.set(line, place.j < 0 ? { i: place.i, j } : null);
    if (j % 500 === 0 && slice.isOver()) await slice.rest();
  }
  const shared = [...places.values()].filter((place) => place && place.j >= 0).sort((a, b) => a.i - b.i);
  const ends = []; // the last of the best sequence of each length
  for (const place of shared) {
    let low = 0;
    for (let high = ends.length; low < high;) {
      const middle = (low + high) >> 1;
      if (ends[middle].j < place.j) low = middle + 1;
      else high = middle;
    }
    place.previous = low ? ends[low - 1] : null;
    ends[low] = place;
  }
  const chosen = [];
  for (let place = ends.at(-1); place; place = place.previous) chosen.push([place.i, place.j]);
  return chosen.reverse();
}

async function compareLines(before, after, slice) {
  const old = before.join("");
  const fresh = after.join("");
  if (old.length + fresh.length <= SMALL_TEXT) return compareWords(old, fresh, slice);
  const edits = await findEdits(before, after, slice);
  if (!edits) return [["removed", old], ["added", fresh]];
  const pieces = [];
  let [removed, added] = ["", ""];
  const close = async () => {
    if (removed.length + added.length <= SMALL_TEXT) pieces.push(...await compareWords(removed, added, slice));
    else pieces.push(["removed", removed], ["added", added]);
    [removed, added] = ["", ""];
  };
  for (const [kind, i, j, length] of edits) {
    if (kind === "removed") removed += before.slice(i, i + length).join("");
    else if (kind === "added") added += after.slice(j, j + length).join("");
    else {
      await close();
      pieces.push(["same", before.slice(i, i + length).join("")]);
    }
  }
  await close();
  return pieces;
}

async function compareWords(before, after, slice) {
  if (before === "" || after === "") return [["removed", before], ["added", after]];
  const old = before.match(A_WORD);
  const fresh = after.match(A_WORD);
  const edits = await findEdits(old, fresh, slice);
  if (!edits) return [["removed", before], ["added", after]];
  return edits.map(([kind, i, j, length]) =>
    [kind, (kind === "added" ? fresh.slice(j, j + length) : old.slice(i, i + length)).join("")]);
}

function replaceAll(before, after) {
  return [["removed", 0, 0, before], ["added", before, 0, after]];
}

// The shortest way from one list to another (Myers), as runs [kind, i, j, length]; null where it is too long a way.
async function findEdits(before, after, slice) {
  const most = Math.min(before.length + after.length, MOST_EDITS);
  const reach = new Int32Array(2 * most + 3);
  const past = [];
  for (let edits = 0; edits <= most; edits++) {
    if (slice.isOver()) await slice.rest();
    for (let k = -edits; k <= edits; k += 2) {
      const at = k + most + 1;
      let i = k === -edits || (k !== edits && reach[at - 1] < reach[at + 1]) ? reach[at + 1] : reach[at - 1] + 1;
      while (i < before.length && i - k < after.length && before[i] === after[i - k]) i++;
      reach[at] = i;
      if (i >= before.length && i - k >= after.length) return traceEdits(past, edits, before.length, after.length);
    }
    past.push(reach.slice(most + 1 - edits, most + 2 + edits));
  }
  return null;
}

function traceEdits(past, edits, i, j) {
  const runs = [];
  const add = (kind, x, y, length) => length > 0 && runs.push([kind, x, y, length]);
  for (; edits > 0; edits--) {
    const reach = past[edits - 1]; // of the diagonals from -(edits - 1) to edits - 1
    const on = (k) => reach[k + edits - 1] ?? -1;
    const k = i - j;
    const isAdded = k === -edits || (k !== edits && on(k - 1) < on(k + 1));
    const fromI = isAdded ? on(k + 1) : on(k - 1);
    const fromJ = isAdded ? fromI - k - 1 : fromI - k + 1;
    const afterI = isAdded ? fromI : fromI + 1;
    add("same", afterI, afterI - k, i - afterI);
    add(isAdded ? "added" : "removed", fromI, fromJ, 1);
    [i, j] = [fromI, fromJ];
  }
  add("same", 0, 0, i);
  return runs.reverse();
}

// Neighbours of one kind become one piece, and between two that stay what is removed stands before what is added.
function joinPieces(pieces) {
  const joined = [];
  let [removed, added] = ["", ""];
  const close = () => {
    if (removed) joined.push(["removed", removed]);
    if (added) joined.push(["added", added]);
    [removed, added] = ["", ""];
  };
  for (const [kind, text] of pieces) {
    if (text === "") continue;
    if (kind === "removed") removed += text;
    else if (kind === "added") added += text;
    else {
      close();
      if (joined.at(-1)?.[0] === "same") joined.at(-1)[1] += text;
      else joined.push(["same", text]);
    }
  }
  close();
  return joined;
}

// A few letters that stay between two long changes only make both hard to read.
function calmPieces(pieces) {
  const sizes = pieces.map(([kind, text]) => (kind === "same" ? 0 : text.trim().length));
  const isNoise = (at) => {
    const [kind, text] = pieces[at];
    if (kind !== "same" || text.includes("\n") || at === 0 || at === pieces.length - 1) return false;
    const length = text.trim().length;
    const before = Math.max(sizes[at - 1], pieces[at - 2]?.[0] === "removed" && pieces[at - 1][0] === "added" ? sizes[at - 2] : 0);
    const after = Math.max(sizes[at + 1], pieces[at + 1][0] === "removed" && pieces[at + 2]?.[0] === "added" ? sizes[at + 2] : 0);
    return 2 * length <= Math.min(before, after);
  };
  const noise = pieces.map((_, at) => isNoise(at));
  return joinPieces(pieces.flatMap(([kind, text], at) => (noise[at] ? [["removed", text], ["added", text]] : [[kind, text]])));
}
