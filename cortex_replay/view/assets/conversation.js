// Conversations: a run or a test in order, as people read agents; or one recording by itself.

import { el, fill } from "./dom.js";
import { countText, durationText, plural, shortCount, tokensOf } from "./figures.js";
import { announce } from "./keys.js";
import { load } from "./source.js";
import { Step } from "./steps.js";
import { breakable, figureList, storyName, tableOf } from "./tables.js";

const NEAR = "900px"; // steps this far from what is seen are loaded
const AT_ONCE = 4;
const SLICE = 50; // steps that are drawn without a pause; more where many are, since the browser goes over all of them each time
const MOST_DRAWN = 1000; // that are drawn before they are asked for
const MOVES = ["wheel", "touchmove", "pointerdown", "keydown"];

export async function showConversation(root, rest) {
  const [name, place] = rest;
  if (name === undefined) return chooseStory(root);
  if (name === "call") return showCall(root, place);
  const story = await load(`stories/${encodeURIComponent(name)}`);
  const screen = new StoryScreen(story);
  screen.draw(root);
  if (place !== undefined) await screen.goTo(place);
  return screen;
}

async function chooseStory(root) {
  const { runs, tests } = await load("store");
  fill(root, el("h2", {}, "Conversations"),
    runs.length + tests.length === 0 ? el("p", { class: "empty" }, "No run and no test is recorded here.") : null,
    storyTable("Tests", tests), storyTable("Runs", runs));
  const links = () => [...root.querySelectorAll("tbody a")];
  const move = (by) => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    all[Math.min(Math.max(at === -1 ? 0 : at + by, 0), all.length - 1)]?.focus();
  };
  return { keys: { j: () => move(1), k: () => move(-1) } };
}

function storyTable(caption, stories) {
  if (stories.length === 0) return null;
  return tableOf(caption, [["Name", ""], ["Calls", "number"], ["Tokens", "number wide"], ["Took", "number wide"]], stories.map((story) => [
    el("a", { href: `#/conversation/${encodeURIComponent(story.id)}` }, breakable(storyName(story))),
    story.mcp_calls ? `${countText(story.calls)} + ${countText(story.mcp_calls)} MCP` : countText(story.calls),
    shortCount(tokensOf(story.spent)), durationText(story.seconds)]), 20);
}

// One recording alone: a story of one step, with all of its answers.
async function showCall(root, id) {
  const call = await load(`calls/${encodeURIComponent(id ?? "")}`);
  const info = { id: call.id, kind: call.kind, number: 1, answer: null, who: call.who, what: "", said: "", tools: [], caused_by: null, at: null, took_ms: null, finish_reason: null, is_error: false, failures: [], spent: null, cache: null };
  const screen = new StoryScreen({ id: "call", name: `Recording ${call.key.slice(0, 16)}`, steps: [info], spent: null });
  screen.draw(root);
  return screen;
}

class StoryScreen {
  #story;
  #steps = []; // those that are drawn, from the first on
  #list = el("div", { class: "steps" });
  #isStopped = false;
  #byId = new Map();
  #resultsOf = new Map(); // the step that shows a result, by the id of its tool call
  #current = 0;
  #seen;
  #near = new Set();
  #loading = 0;
  #held = null; // the step that stays in place while others above it grow, until the reader moves on
  #grown = new ResizeObserver(() => this.#held?.element.scrollIntoView({ block: "start" }));
  #release = () => { this.#held = null; };

  constructor(story) {
    this.#story = story;
    for (const info of story.steps) {
      if (!this.#byId.has(info.id)) this.#byId.set(info.id, info);
      for (const tool of info.tools) if (tool.call_id !== null && tool.result_in !== null) this.#resultsOf.set(tool.call_id, tool.result_in);
    }
    this.#seen = new IntersectionObserver((entries) => this.#note(entries), { rootMargin: `${NEAR} 0px` });
    this.keys = {
      j: () => this.#move(1),
      k: () => this.#move(-1),
      Enter: () => this.#steps[this.#current]?.toggle(),
      p: () => this.#steps[this.#current]?.play(),
      r: () => this.#steps[this.#current]?.raw(),
    };
    this.help = [["j  k", "next, previous step"], ["Enter", "open or close all of a step"], ["p", "play or pause its stream"], ["r", "its raw bytes"]];
  }

  draw(root) {
    const { steps, spent, id } = this.#story;
    const models = steps.filter((step) => step.kind === "model").length;
    const end = steps.reduce((last, step) => Math.max(last, (step.at ?? 0) + (step.took_ms ?? 0) / 1000), 0);
    const read = spent === null || spent.prompt === 0 || spent.cached === 0 ? "" : `${Math.floor((100 * spent.cached) / spent.prompt)} % cached`;
    fill(root, el("h2", {}, breakable(storyName(this.#story))),
      id === "call" ? null : figureList([
        ["Model calls", countText(models)],
        ["MCP calls", steps.length === models ? "" : countText(steps.length - models)],
        ["Tokens in", spent.prompt ? shortCount(spent.prompt) : "", read],
        ["Tokens out", spent.completion ? shortCount(spent.completion) : ""],
        ["Cost", spent.money],
        ["Took", end > 0 ? durationText(end) : ""]]),
      steps.length === 0 ? el("p", { class: "empty" }, "Nothing is recorded of it.") : null,
      this.#list, steps.length > MOST_DRAWN ? this.#more() : null);
    this.#grown.observe(this.#list);
    for (const name of MOVES) addEventListener(name, this.#release, { passive: true, capture: true });
    this.#drawUpTo(Math.min(steps.length, MOST_DRAWN));
  }

  #more() {
    const total = this.#story.steps.length;
    const button = el("button", { type: "button", onclick: async () => {
      await this.#drawUpTo(Math.min(this.#steps.length + MOST_DRAWN, total));
      if (this.#steps.length >= total) button.remove();
    } }, `Show more of ${plural(total, "step")}`);
    return button;
  }

  // Draw the first steps, in slices: the page answers its reader meanwhile.
  async #drawUpTo(count) {
    while (this.#steps.length < count && !this.#isStopped) {
      const drawn = this.#steps.length;
      const made = this.#story.steps.slice(drawn, Math.min(drawn + Math.max(SLICE, drawn >> 2), count)).map((info) => new Step(info, this));
      this.#steps.push(...made);
      this.#list.append(...made.map((step) => step.element));
      for (const step of made) {
        this.#seen.observe(step.element);
        step.element.addEventListener("focusin", () => { this.#current = step.info.number - 1; });
      }
      if (this.#steps.length < count) await new Promise((done) => { setTimeout(done); });
    }
  }

  update(rest) {
    const isOther = this.#story.id === "call" || rest[0] !== this.#story.id || rest[1] === undefined;
    if (!isOther) this.goTo(rest[1]);
    return !isOther;
  }

  stop() {
    this.#isStopped = true;
    this.#seen.disconnect();
    this.#grown.disconnect();
    for (const name of MOVES) removeEventListener(name, this.#release, { capture: true });
    for (const step of this.#steps) step.stop();
  }

  // A step by its number, or by the id of its recording.
  async goTo(place) {
    const info = this.#byId.get(place) ?? this.#story.steps.find((step) => String(step.number) === place);
    if (info === undefined) return;
    this.keepsPlace = true;
    await this.#open(this.#story.steps.indexOf(info));
  }

  byNumber(number) {
    return this.#story.steps[number - 1];
  }

  // The step before a number that has a recording, if there is one.
  earlier(id, number) {
    const info = this.#byId.get(id);
    return info !== undefined && info.number < number ? info : null;
  }

  // Whether the result of a tool call, which a step's prompt has, stands beside the call already.
  showsResult(callId, number) {
    return callId !== null && this.#resultsOf.get(callId) === number;
  }

  link(number) {
    return el("a", { href: `#/conversation/${encodeURIComponent(this.#story.id)}/${number}` }, `step ${countText(number)}`);
  }

  #move(by) {
    const isFirst = !this.#steps[this.#current]?.element.contains(document.activeElement);
    const next = Math.min(Math.max(this.#current + (isFirst ? 0 : by), 0), this.#story.steps.length - 1);
    this.#open(next);
    if (this.#story.id !== "call") history.replaceState(history.state, "", `#/conversation/${encodeURIComponent(this.#story.id)}/${next + 1}`);
  }

  async #open(at) {
    await this.#drawUpTo(at + 1);
    const step = this.#steps[at];
    if (step === undefined) return;
    this.#current = at;
    this.#held = step;
    step.element.focus({ preventScroll: true });
    step.element.scrollIntoView({ block: "start" });
    announce(`Step ${at + 1} of ${this.#story.steps.length}`);
    await step.show();
  }

  #note(entries) {
    for (const entry of entries) {
      const at = Number(entry.target.id.slice("step-".length)) - 1;
      if (entry.isIntersecting) this.#near.add(at);
      else this.#near.delete(at);
    }
    this.#loadNear();
  }

  // What has gone by before its turn came is not loaded.
  async #loadNear() {
    while (this.#loading < AT_ONCE) {
      const at = [...this.#near].find((one) => !this.#steps[one].isShown);
      if (at === undefined) return;
      this.#loading += 1;
      this.#steps[at].show().finally(() => {
        this.#loading -= 1;
        this.#loadNear();
      });
    }
  }
}
