// The Change screen: what a reviewer must see first, then what is only reworded.

import { el, fill } from "./dom.js";
import { changeItem, wordsItem } from "./change_item.js";
import { countText, plural } from "./figures.js";
import { load } from "./source.js";
import { TIERS } from "./tiers.js";

const TIER_SECTIONS = [
  ["contract", "Another tool, a missing argument, an output that does not fit its schema, a refusal, another finish reason."],
  ["behaviour", "Other arguments, another order, more or fewer calls."],
];
const FOLDS = [
  ["words", TIERS.words.many, (item) => item.tier === "words"],
  ["added", "new, with nothing to compare", (item) => item.tier === "same" && item.change === "added"],
  ["removed", "removed with the test that asked", (item) => item.tier === "same" && item.change === "removed"],
  ["same", `${TIERS.same.many} in another file`, (item) => item.tier === "same" && !["added", "removed"].includes(item.change)],
];
const COUNTS = ["contract", "behaviour", "words", "added", "removed"];
const MOST_FINDINGS = 20;
const ITEMS_AT_A_TIME = 40; // items that are made before the page gets its turn

export async function showChange(root, rest, page) {
  const change = await load("change");
  const ticks = new Ticks(change);
  const state = { isStopped: false, stories: new Map() };
  const links = (scope) => (state.stories.has(scope) ? `#/conversation/${encodeURIComponent(state.stories.get(scope))}` : null);
  const progress = el("p", { class: "progress", role: "status" });
  const important = change.items.filter((item) => TIER_SECTIONS.some(([tier]) => tier === item.tier));
  const say = () => fill(progress, important.length ? `${ticks.count(important)} of ${important.length} reviewed` : null);
  const onDone = (item, isDone) => {
    ticks.set(item, isDone);
    root.querySelector(`[data-item="${CSS.escape(item.id)}"]`)?.classList.toggle("done", isDone);
    say();
  };
  const make = (item) => changeItem(item, { links, isDone: ticks.has(item), onDone });
  const makers = []; // what makes the items of each section
  const sections = TIER_SECTIONS.map(([tier, help]) => {
    const items = important.filter((item) => item.tier === tier);
    const place = el("div", { class: "items" });
    if (items.length) makers.push(() => appendInTurns(place, items, make, state));
    return items.length ? tierSection(TIERS[tier].title, help, items.length, place) : null;
  });
  const folded = FOLDS.map(([name, words, belongs]) => {
    const items = change.items.filter(belongs);
    return foldedSection(items, name === "words" ? change.counts.words - items.length : 0, words, (item) => wordsItem(item, { links }), state);
  });
  const others = change.left_out - (change.counts.words - change.items.filter((item) => item.tier === "words").length);
  fill(root, el("div", { class: "changes" }, changeHead(change, progress, () => openAll(root, true), () => openAll(root, false)), sections, folded,
    others > 0 ? el("p", { class: "muted" }, `${plural(others, "more recording")} with nothing to compare, or with the same answer; this page leaves them out`) : null));
  say();
  const whole = (async () => {
    for (const makeSection of makers) await makeSection();
    await linkScopes(root, page, state, links);
  })();
  const control = controlOf(root, state);
  if (rest.length) whole.then(() => control.update(rest));
  return control;
}

// The first items can be seen at once; the page gets its turn before the next.
async function appendInTurns(place, items, make, state) {
  for (let at = 0; at < items.length && !state.isStopped; at += ITEMS_AT_A_TIME) {
    if (at) await turnOfPage();
    place.append(...items.slice(at, at + ITEMS_AT_A_TIME).map(make));
  }
}

function changeHead(change, progress, open, close) {
  const counts = COUNTS.filter((name) => change.counts[name]).map((name) =>
    el("li", { class: name }, el("b", {}, countText(change.counts[name])), ` ${TIERS[name]?.many ?? name}`));
  return el("header", { class: "change-head" },
    el("h2", {}, "What changed"),
    el("p", { class: "range" }, el("code", {}, change.base), " → ", el("code", {}, change.head)),
    change.findings?.length ? findingsNote(change.findings) : null,
    counts.length ? el("ul", { class: "counts" }, counts) : null,
    change.items.length || change.left_out ? null : el("p", { class: "empty" }, "No recording changed."),
    change.items.length ? el("div", { class: "change-tools" }, progress,
      el("button", { type: "button", onclick: open }, "Expand all"),
      el("button", { type: "button", onclick: close }, "Collapse all")) : null);
}

function findingsNote(findings) {
  return el("div", { class: "alert", role: "alert" },
    el("p", {}, `${plural(findings.length, "finding")}: files that their index does not vouch for are not compared. Run cortex-replay verify.`),
    el("ul", {}, findings.slice(0, MOST_FINDINGS).map((finding) => el("li", {}, finding))),
    findings.length > MOST_FINDINGS ? el("p", {}, `and ${countText(findings.length - MOST_FINDINGS)} more`) : null);
}

function tierSection(title, help, number, place) {
  return el("section", { class: "tier-section", aria: { label: title } },
    el("h3", {}, `${title} `, el("span", { class: "count" }, countText(number))), el("p", { class: "muted" }, help), place);
}

function foldedSection(items, more, words, make, state) {
  const total = items.length + more;
  if (total === 0) return null;
  const place = el("div", { class: "items" });
  const note = more ? el("p", { class: "muted" }, `and ${countText(more)} more that this page leaves out`) : null;
  const details = el("details", { class: "fold-section" }, el("summary", {}, el("h3", {}, `${plural(total, "recording")} ${words}`)), place, note);
  details.addEventListener("toggle", () => details.open && !place.hasChildNodes() && appendInTurns(place, items, make, state));
  return el("section", { class: "tier-section" }, details);
}

// A section makes its lines when it is opened, so those come in a second round.
async function openAll(root, isOpen) {
  for (const kind of ["article.change > details, details.fold-section", "details.reworded"]) {
    for (const [at, one] of [...root.querySelectorAll(kind)].entries()) {
      one.open = isOpen;
      if (at % ITEMS_AT_A_TIME === ITEMS_AT_A_TIME - 1) await turnOfPage();
    }
    await turnOfPage();
  }
}

function turnOfPage() {
  return new Promise((resume) => setTimeout(resume));
}

// An item by its id; what is folded is opened for it.
async function findItem(root, id) {
  const find = () => root.querySelector(`[data-item="${CSS.escape(id)}"]`);
  for (const section of root.querySelectorAll("details.fold-section")) {
    if (find()) break;
    section.open = true;
    while (section.querySelector(".items").childElementCount === 0) await turnOfPage();
  }
  return find();
}

function controlOf(root, state) {
  const stops = () => [...root.querySelectorAll("article.change, details.fold-section > summary, details.fold-section[open] details.reworded > summary")];
  const arriveAt = (found) => {
    const target = found.matches("article") ? found.querySelector("h4") : found.querySelector("summary") ?? found;
    target.focus({ preventScroll: true });
    found.scrollIntoView({ block: "start" });
  };
  const go = (step) => () => {
    const all = stops();
    const current = all.findIndex((one) => one.contains(document.activeElement));
    const next = current < 0 ? (step > 0 ? 0 : all.length - 1) : current + step;
    if (all[next]) arriveAt(all[next]);
  };
  const here = () => stops().find((one) => one.contains(document.activeElement));
  return {
    keys: {
      n: go(1), p: go(-1), j: go(1), k: go(-1),
      e: () => openAll(root, true),
      c: () => openAll(root, false),
      x: () => here()?.querySelector("input[type=checkbox]")?.click(),
      Enter: () => {
        const details = here()?.querySelector("details");
        if (details) details.open = !details.open;
      },
    },
    help: [["n  p", "next, previous change"], ["Enter", "both sides of it"], ["x", "reviewed, or not"], ["e  c", "expand, collapse all"]],
    update([id]) {
      if (id !== undefined) findItem(root, id).then((found) => found && arriveAt(found));
      return true;
    },
    stop() {
      state.isStopped = true;
    },
  };
}

// Scopes become links to the conversations of tests and runs that this page can show. A change is shown without
// waiting for that: the store may be large.
async function linkScopes(root, page, state, links) {
  if (!["store", "conversation"].every((name) => page.screens.includes(name))) return;
  const store = await load("store").catch(() => ({ tests: [], runs: [] }));
  state.stories = new Map([...store.runs, ...store.tests].map((row) => [row.name, row.id]));
  for (const scope of state.isStopped ? [] : root.querySelectorAll("span.scope")) {
    const address = links(scope.dataset.scope);
    if (address !== null) scope.replaceWith(el("a", { class: "scope", href: address }, scope.dataset.scope));
  }
}

// Which changes a reader has looked at, for as long as the tab is open; a change of the change takes the tick away.
class Ticks {
  constructor(change) {
    this.place = `cortex-replay reviewed ${change.base} ${change.head}`;
    this.marks = new Set();
    try {
      this.marks = new Set(JSON.parse(sessionStorage.getItem(this.place) ?? "[]"));
    } catch {
      // Not every browser lets a file keep something.
    }
  }

  has(item) {
    return this.marks.size > 0 && this.marks.has(markOf(item));
  }

  count(items) {
    return items.filter((item) => this.has(item)).length;
  }

  set(item, isDone) {
    if (isDone) this.marks.add(markOf(item));
    else this.marks.delete(markOf(item));
    try {
      sessionStorage.setItem(this.place, JSON.stringify([...this.marks]));
    } catch {
      // As above; the tick holds until the page is closed.
    }
  }
}

const marksOfItems = new WeakMap();

function markOf(item) {
  if (!marksOfItems.has(item)) marksOfItems.set(item, `${item.id} ${fingerprint(item)}`);
  return marksOfItems.get(item);
}

function fingerprint(item) {
  const text = JSON.stringify([item.differences, item.after.map((answer) => [answer.text, answer.tool_calls])]);
  let hash = 0;
  for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
  return hash;
}
