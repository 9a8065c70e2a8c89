// The store: what is recorded, of which models, in which runs and tests; and a search over all of it.

import { el, fill, prose } from "./dom.js";
import { ageText, agoText, countText, dateText, durationText, momentText, plural, shortCount, sizeText, tokensOf } from "./figures.js";
import { RowList } from "./list.js";
import { markHit, patternFor, prepareSearch, searchFor, stopSearch } from "./search.js";
import { load } from "./source.js";
import { badge, breakable, figureList, shortName, storyName, tableOf } from "./tables.js";

const SORTS = {
  newest: ["Newest", (a, b) => (b.at ?? 0) - (a.at ?? 0)],
  oldest: ["Oldest", (a, b) => (a.at ?? Infinity) - (b.at ?? Infinity)],
  tokens: ["Most tokens", (a, b) => tokensOf(b.spent) - tokensOf(a.spent)],
  size: ["Largest", (a, b) => b.bytes - a.bytes],
  answers: ["Most answers", (a, b) => b.answers - a.answers],
};
const MOST_FINDINGS = 200;
const LONGEST_LINE = 400; // more is not seen, and takes a browser long to lay out
// What the reader has chosen; it is still so when they come back from a conversation.
const chosen = { words: "", who: "", story: "", unused: false, old: false, sort: "newest", opened: "" };

let lastSearch = {}; // what it found is still right for another order, another filter, and who comes back

export async function showStore(root, _rest, page) {
  const store = await load("store");
  const screen = new StoreScreen(store, page.screens.includes("conversation"));
  fill(root, el("h2", {}, "Store"), storeTotals(store), storeFindings(store), screen.tables(), screen.recordings());
  screen.refresh();
  return screen;
}

function storeTotals(store) {
  const times = store.calls.map((call) => call.at).filter((at) => at !== null);
  const oldest = times.length ? times.reduce((a, b) => Math.min(a, b)) : null;
  const newest = times.length ? times.reduce((a, b) => Math.max(a, b)) : null;
  const { spent } = store;
  return figureList([
    ["Recordings", countText(store.calls.length)],
    ["Size", sizeText(store.bytes)],
    ["Tokens in", shortCount(spent.prompt), spent.cached && spent.prompt ? `${Math.round((100 * spent.cached) / spent.prompt)} % cached` : ""],
    ["Tokens out", shortCount(spent.completion)],
    ["Cost", spent.money],
    ["Oldest", dateText(oldest), agoText(oldest)],
    ["Newest", dateText(newest), agoText(newest)],
  ]);
}

function storeFindings(store) {
  if (store.findings.length === 0) return null;
  const what = store.findings.length === 1 ? "1 file is not shown: the index does not vouch for it." : `${countText(store.findings.length)} files are not shown: the index does not vouch for them.`;
  return el("div", { class: "alert", role: "alert" }, el("p", {}, el("strong", {}, what), prose(" Run `cortex-replay verify` to see why.")),
    el("details", {}, el("summary", {}, "Show them"), el("ul", {}, store.findings.slice(0, MOST_FINDINGS).map((text) => el("li", {}, text)),
      store.findings.length > MOST_FINDINGS ? el("li", {}, `and ${countText(store.findings.length - MOST_FINDINGS)} more`) : null)));
}

class StoreScreen {
  #store;
  #canOpen;
  #list;
  #runs;
  #tests;
  #sorted = new Map();
  #hits = null;
  #pattern = null;
  #count = el("p", { class: "count", role: "status", aria: { live: "polite" } });
  #none = el("p", { class: "empty", hidden: true });
  #field;
  #who;

  constructor(store, canOpen) {
    this.#store = store;
    this.#canOpen = canOpen;
    this.#runs = new Map(store.runs.map((run) => [run.name, run.id]));
    this.#tests = new Map(store.tests.map((test) => [test.name, test.id]));
    this.#list = new RowList({ label: "Recordings", draw: (call) => this.#draw(call), address: (call) => this.#address(call), opened: (call) => { chosen.opened = call.id; } });
    this.keys = { j: () => this.#list.move(1), k: () => this.#list.move(-1), Enter: () => this.#list.open() };
    this.help = [["↑  ↓", "next, previous recording"], ["Home  End", "first, last recording"]];
  }

  stop() {
    stopSearch();
    this.#list.stop();
  }

  // The reader came back from a conversation.
  returned() {
    this.#list.goTo((call) => call.id === chosen.opened);
  }

  tables() {
    const { models, runs, tests } = this.#store;
    return el("div", { class: "tables" }, el("div", { class: "tables" },
      models.length ? tableOf("Models", [["Model", ""], ["Calls", "number"], ["Tokens", "number"], ["Cost", "number wide"], ["Size", "number wide"], ["Newest", "number"]],
        models.map((model) => [this.#modelButton(model.name), countText(model.calls), shortCount(tokensOf(model.spent)), moneyText(model.spent), sizeText(model.bytes), agoTime(model.newest)]), 6) : null,
      this.#storyTable("Runs", "Run", runs, tests.length ? 5 : 8)), this.#storyTable("Tests", "Test", tests, 8));
  }

  #storyTable(caption, head, stories, most) {
    if (stories.length === 0) return null;
    return tableOf(caption, [[head, ""], ["Calls", "number"], ["Tokens", "number"], ["Cost", "number wide"], ["Began", "number"]],
      stories.map((story) => [this.#storyLink(story), story.mcp_calls ? `${countText(story.calls)} + ${countText(story.mcp_calls)} MCP` : countText(story.calls), shortCount(tokensOf(story.spent)), moneyText(story.spent), agoTime(story.at)]), most);
  }

  #storyLink(story) {
    return this.#canOpen ? el("a", { href: `#/conversation/${encodeURIComponent(story.id)}`, title: story.seconds === null ? null : `Took ${durationText(story.seconds)}` }, breakable(storyName(story))) : breakable(storyName(story));
  }

  #modelButton(name) {
    return el("button", { type: "button", class: "link", title: `Show only ${shortName(name)}`, onclick: () => {
      chosen.who = name;
      this.#who.value = name;
      this.refresh();
      this.#field.scrollIntoView({ block: "start" });
    } }, breakable(name));
  }

  recordings() {
    const { calls, runs, tests } = this.#store;
    this.#field = el("input", { type: "search", id: "words", placeholder: "Search prompts and answers", autocomplete: "off", spellcheck: "false", onfocus: prepareSearch, oninput: () => this.#type() });
    this.#field.value = chosen.words;
    const names = [...new Set(calls.map((call) => call.who))].sort();
    const stories = [...new Map([...tests, ...runs].map((story) => [story.name, storyName(story)]))];
    this.#who = storeChoice("Model or server", "who", [["", "All"], ...names.map((name) => [name, name])], () => this.refresh());
    return el("section", { aria: { labelledby: "recordings" } },
      el("h3", { id: "recordings" }, "Recordings"),
      el("form", { class: "filters", role: "search", onsubmit: (event) => { event.preventDefault(); this.#list.move(0); } },
        el("label", { class: "grow" }, el("span", { class: "unseen" }, "Search prompts and answers"), this.#field),
        storeLabel("From", this.#who),
        stories.length ? storeLabel("In", storeChoice("Run or test", "story", [["", "All runs and tests"], ...stories], () => this.refresh())) : null,
        storeLabel("Sort", storeChoice("Sort", "sort", Object.entries(SORTS).map(([name, [words]]) => [name, words]), () => this.refresh())),
        calls.some((call) => call.is_unused !== null) ? storeTick("unused", "Unused", () => this.refresh()) : null,
        calls.some((call) => call.is_old) ? storeTick("old", "Old", () => this.refresh()) : null),
      this.#count, this.#none, this.#list.element);
  }

  async #type() {
    chosen.words = this.#field.value;
    await this.refresh();
  }

  // Show what is chosen; with words, as they are found.
  async refresh() {
    stopSearch();
    if (chosen.words.trim() === "") {
      this.#hits = this.#pattern = null;
      this.#show(true);
      return;
    }
    const { words } = chosen;
    this.#pattern = patternFor(words);
    if (lastSearch.store === this.#store && lastSearch.words === words) {
      this.#hits = lastSearch.hits;
      this.#show(true, lastSearch.note);
      return;
    }
    try {
      await searchFor(words, this.#store.calls, (hits, isDone, note) => {
        this.#hits = hits;
        if (isDone) lastSearch = { store: this.#store, words, hits, note };
        this.#show(isDone, note);
      });
    } catch (error) {
      fill(this.#count, el("span", { role: "alert" }, error.message));
    }
  }

  #show(isDone, note = "") {
    const shown = this.#ordered().filter((call) => this.#isWanted(call));
    this.#list.set(shown);
    const all = this.#store.calls.length;
    const words = shown.length === all ? plural(all, "recording") : `${countText(shown.length)} of ${plural(all, "recording")}`;
    fill(this.#count, isDone ? words : `${words} so far …`, note ? ` ${note}` : null);
    this.#none.hidden = shown.length > 0 || !isDone;
    fill(this.#none, all === 0 ? "Nothing is recorded yet." : "No recording fits. Try fewer words, or leave out a filter.");
  }

  #ordered() {
    if (!this.#sorted.has(chosen.sort)) this.#sorted.set(chosen.sort, [...this.#store.calls].sort(SORTS[chosen.sort][1]));
    return this.#sorted.get(chosen.sort);
  }

  #isWanted(call) {
    return (this.#hits === null || this.#hits.has(call.id))
      && (chosen.who === "" || call.who === chosen.who)
      && (chosen.story === "" || call.runs.includes(chosen.story) || call.scopes.includes(chosen.story))
      && (!chosen.unused || call.is_unused === true)
      && (!chosen.old || call.is_old);
  }

  #address(call) {
    if (!this.#canOpen) return null;
    const isWanted = (name) => chosen.story === "" || name === chosen.story;
    const stories = [...call.scopes.filter(isWanted).map((name) => this.#tests.get(name)), ...call.runs.filter(isWanted).map((name) => this.#runs.get(name))];
    const story = stories.find((id) => id !== undefined) ?? "call";
    return `#/conversation/${encodeURIComponent(story)}/${encodeURIComponent(call.id)}`;
  }

  #draw(call) {
    const hits = this.#hits?.get(call.id) ?? [];
    return [
      el("span", { class: "question" }, call.question === "" ? el("i", {}, "no text") : markHit(call.question.slice(0, LONGEST_LINE), this.#pattern)),
      el("span", { class: "marks" }, this.#marks(call), call.at === null ? null : el("time", { title: momentText(call.at) }, ageText(call.at))),
      hits.length ? hitLine(hits) : el("span", { class: "answer" }, markHit(call.answer.slice(0, LONGEST_LINE), this.#pattern)),
      el("span", { class: "meta" }, el("span", { class: "who" }, markHit(shortName(call.who), this.#pattern)),
        call.answers > 1 ? el("span", {}, plural(call.answers, "answer")) : null,
        call.spent === null ? null : el("span", {}, `${shortCount(tokensOf(call.spent))} tokens`),
        el("span", { class: "wide" }, sizeText(call.bytes))),
    ];
  }

  #marks(call) {
    return [
      call.kind === "model" ? null : badge("plain", call.kind === "mcp" ? "MCP" : "exchange"),
      call.is_unused === true ? badge("warn", "unused") : null,
      call.is_old ? badge("warn", "old") : null,
    ];
  }
}

function hitLine(hits) {
  const [first] = hits;
  return el("span", { class: "answer" }, el("b", {}, first.where), " ", `…${first.before}`, el("mark", {}, first.match), first.after,
    hits.length > 1 ? el("i", {}, ` and ${hits.length - 1} more`) : null);
}

function moneyText(spent) {
  return (spent.money ?? "").replace("less than ", "< ");
}

function agoTime(at) {
  return at === null ? "" : el("time", { title: momentText(at) }, ageText(at));
}

function storeLabel(words, field) {
  return el("label", {}, el("span", {}, words), field);
}

function storeChoice(label, name, options, changed) {
  const field = el("select", { aria: { label }, onchange: () => { chosen[name] = field.value; changed(); } }, options.map(([value, words]) => el("option", { value }, shortName(words))));
  if (options.some(([value]) => value === chosen[name])) field.value = chosen[name];
  else chosen[name] = options[0][0];
  return field;
}

function storeTick(name, words, changed) {
  const box = el("input", { type: "checkbox", onchange: () => { chosen[name] = box.checked; changed(); } });
  box.checked = chosen[name];
  return el("label", { class: "tick" }, box, words);
}
