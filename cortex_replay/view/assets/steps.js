// One step of a conversation: its line in the list, and what it holds once it is near.

import { el, fill } from "./dom.js";
import { cacheBlock, changedText, endBadge, failureBlock, mcpMessages, mcpText, messageBlock, partTitle, reasoningBlock, resultOf, settingsBlock, systemBlock, toolCard, toolsBlock, vouchBlock } from "./blocks.js";
import { countText, plural, secondsText } from "./figures.js";
import { load } from "./source.js";
import { StreamPlayer, streamFigures } from "./stream.js";
import { badge } from "./tables.js";
import { copyButton, foldLine, plainText, someOf, textBox, valueBox } from "./texts.js";

const MOST_BEFORE = 40; // messages that a click shows

export class Step {
  #info;
  #story;
  #body = el("div", { class: "body" });
  #loading = null;
  #players = [];

  // story finds other steps: byNumber(n), link(n), earlier(id, number).
  constructor(info, story) {
    this.#info = info;
    this.#story = story;
    const isMcp = info.kind !== "model";
    this.element = el("article", { class: `step ${isMcp ? "mcp" : "model"} ${info.is_error ? "failed" : ""}`, id: `step-${info.number}`, tabindex: "-1", aria: { labelledby: `step-${info.number}-title` } },
      el("header", {}, el("h3", { id: `step-${info.number}-title` }, info.answer === null ? null : [el("span", { class: "place" }, countText(info.number)), " "], info.who, isMcp ? el("span", { class: "muted" }, info.kind === "mcp" ? " MCP" : " call") : null),
        this.#figures()),
      this.#body);
    fill(this.#body, this.#outline());
  }

  get info() {
    return this.#info;
  }

  get isShown() {
    return this.#loading !== null;
  }

  // Load and show everything, once.
  show() {
    this.#loading ??= this.#fillBody().catch((error) => {
      this.#loading = null;
      fill(this.#body, this.#outline(), el("p", { class: "alert", role: "alert" }, error.message));
    });
    return this.#loading;
  }

  // Open what is folded, or close all of it.
  async toggle() {
    await this.show();
    const folds = [...this.#body.querySelectorAll("details:not(.raw)")];
    const isOpen = folds.length > 0 && folds.every((one) => one.open);
    for (const one of folds) one.open = !isOpen;
  }

  async raw() {
    await this.show();
    const vouch = this.#body.querySelector("details.vouch");
    if (vouch === null) return;
    vouch.open = true;
    // What a fold holds is made when it opens, which the browser tells a moment later.
    setTimeout(() => {
      const raw = vouch.querySelector("details.raw");
      if (raw === null) return;
      raw.open = true;
      raw.querySelector("summary").focus();
    });
  }

  async play() {
    await this.show();
    const details = this.#body.querySelector("details.streamed");
    if (details === null) return;
    if (!details.open) {
      details.open = true;
      setTimeout(() => this.#players.at(-1)?.toggle());
    } else this.#players.at(-1)?.toggle();
    details.scrollIntoView({ block: "nearest" });
  }

  stop() {
    for (const player of this.#players) player.pause();
  }

  #figures() {
    const { at, took_ms: took, spent, cache, finish_reason: reason, failures, is_error: isError } = this.#info;
    const facts = [
      at === null ? null : el("span", { title: "Since the start" }, clockText(at)),
      took === null ? null : secondsText(took),
      spent === null ? null : el("span", { title: "Prompt and answer, in tokens" }, `${countText(spent.prompt)} → ${countText(spent.completion)} tokens`),
      spent?.money ?? null,
      cache === null || cache.read === 0 ? null : `${Math.floor(cache.share * 100)} % cached`,
    ];
    return el("p", { class: "facts-line" }, facts.filter((one) => one !== null).map((one) => (one instanceof Node ? one : el("span", {}, one))),
      endBadge(reason), isError ? badge("bad", "error") : null, cache?.broke_at ? badge("warn", "cache broke") : null,
      failures.length ? badge("bad", `${plural(failures.length, "attempt")} failed`) : null);
  }

  // What a step looks like before it is loaded.
  #outline() {
    const { what, said, tools } = this.#info;
    return [what === "" ? null : el("p", { class: "line-what" }, what), said === "" ? null : el("p", { class: "line-said" }, said),
      tools.map((tool) => el("p", { class: "line-said" }, "calls ", el("code", {}, `${tool.name}(${tool.arguments})`)))];
  }

  async #fillBody() {
    const call = await load(`calls/${this.#info.id}`);
    fill(this.#body, this.#info.kind === "model" ? this.#model(call) : this.#server(call));
  }

  #model(call) {
    const good = call.answers.filter((answer) => answer.status === null);
    const answers = this.#info.answer === null ? call.answers : [good[this.#info.answer - 1] ?? good[0]].filter((one) => one !== undefined);
    return [this.#cause(), this.#context(call), this.#messages(call), this.#info.failures.map(failureBlock),
      someOf([...answers.entries()], ([at, answer]) => (answer.status === null ? this.#answer(answer, answers.length > 1 ? `Answer ${at + 1} of ${answers.length}` : "Answer") : failureBlock(answer)), "answer"),
      this.#info.cache === null ? null : cacheBlock(this.#info.cache), vouchBlock(call)];
  }

  #cause() {
    const { caused_by: by, kind } = this.#info;
    if (by === null) return null;
    return el("p", { class: "cause" }, kind === "model" ? ["A server asks this model, in ", this.#story.link(by)] : ["Called by the model in ", this.#story.link(by)]);
  }

  // The frame of a conversation: shown where it begins or changes, and named where it stays.
  #context(call) {
    return [
      call.system === "" ? null : systemBlock(call.system),
      call.system === "" || call.continues === null ? null : later(this.#systemOf(call.continues), (before) => [partTitle("The system prompt changed"), changedText(before, call.system)]),
      call.system_in !== null && call.continues === null ? this.#elsewhere("System prompt", call.system_in, (other) => textBox(other.system)) : null,
      call.tools.length === 0 ? null : toolsBlock(call.tools),
      call.tools_in !== null && call.continues === null ? this.#elsewhere("Tools", call.tools_in, (other) => toolsBlock(other.tools)) : null,
      call.continues === null ? settingsBlock(call.settings) : null,
    ];
  }

  async #systemOf(id) {
    const call = await load(`calls/${id}`);
    return call.system_in === null ? call.system : (await load(`calls/${call.system_in}`)).system;
  }

  #elsewhere(words, id, show) {
    const other = this.#story.earlier(id, this.#info.number);
    return foldLine([el("span", { class: "part" }, words), el("span", { class: "glimpse" }, other === null ? "as in another recording" : `as in step ${other.number}`)], () => later(load(`calls/${id}`), show), { open: this.#info.answer === null });
  }

  #messages(call) {
    const other = call.continues === null ? null : this.#story.earlier(call.continues, this.#info.number);
    // The answer of a step above, and results that stand beside their calls, are not shown twice.
    const isEcho = other !== null && !call.goes_back && call.messages[0]?.role === "assistant";
    const shown = [];
    let results = 0;
    for (const message of isEcho ? call.messages.slice(1) : call.messages) {
      if (message.role === "tool" && this.#story.showsResult(message.tool_call_id, this.#info.number)) results += 1;
      else shown.push(message);
    }
    return [
      call.before === 0 ? null : this.#before(call, other, isEcho ? call.messages.slice(0, 1) : []),
      results === 0 ? null : foldLine([el("span", { class: "part" }, `${plural(results, "tool result")}`), el("span", { class: "glimpse" }, "shown above, beside what called for it")],
        () => someOf(call.messages.filter((message) => message.role === "tool"), (message) => messageBlock(message), "result")),
      someOf(shown, (message) => messageBlock(message), "message", { isFromEnd: true }),
    ];
  }

  #before(call, other, more) {
    const count = plural(call.before + more.length, "message");
    const where = other === null ? "" : call.goes_back ? `the start of step ${other.number}, which went on otherwise` : `as in step ${other.number}`;
    return foldLine([el("span", { class: "part" }, `${count} before`), el("span", { class: "glimpse" }, where)], () => {
      const list = el("div", { class: "before" }, more.map((message) => messageBlock(message)));
      this.#addBefore(list, call.continues, call.before);
      return list;
    }, { open: other === null && call.before <= 2 });
  }

  // Messages before some, from the recordings that have them: the nearest first.
  async #addBefore(list, id, count) {
    const place = el("p", { class: "muted", role: "status" }, "Loading…");
    list.prepend(place);
    try {
      let [at, left, shown] = [id, count, 0];
      while (at !== null && left > 0 && shown < MOST_BEFORE) {
        const call = await load(`calls/${at}`);
        const own = call.messages.slice(0, Math.max(left - call.before, 0));
        place.after(...someOf(own, (message) => messageBlock(message), "message", { isFromEnd: true }));
        shown += own.length;
        [at, left] = [call.continues, Math.min(left, call.before)];
      }
      if (left > 0 && at !== null) {
        place.replaceWith(el("button", { type: "button", class: "quiet more", onclick: (event) => {
          event.currentTarget.remove();
          this.#addBefore(list, at, left);
        } }, `Show ${plural(left, "message")} before`));
      } else place.remove();
    } catch (error) {
      fill(place, error.message);
    }
  }

  #answer(answer, words) {
    const said = answer.text !== "" || (answer.tool_calls.length === 0 && answer.reasoning === "");
    return el("div", { class: "message reply" },
      partTitle(words, endBadge(answer.finish_reason), answer.text === "" ? null : copyButton(answer.text, "the answer")),
      answer.reasoning === "" ? null : reasoningBlock(answer.reasoning),
      said ? textBox(answer.text === "" ? "(no text)" : answer.text) : null,
      answer.parsed === null || answer.parsed === undefined ? null : foldLine([el("span", { class: "part" }, "As JSON")], () => valueBox(answer.parsed), { open: plainText(answer.parsed).length < 2000 && answer.text.length > 80 }),
      someOf([...answer.tool_calls.entries()], ([at, call]) => this.#tool(call, this.#info.tools[at] ?? null), "call"),
      answer.stream === null ? null : this.#stream(answer));
  }

  #stream(answer) {
    const { first, length, pieces, rate } = streamFigures(answer.stream, answer.spent);
    const words = [`first after ${first}`, `${plural(pieces, "piece")} in ${length}`, ...(rate === null ? [] : [rate])];
    return foldLine([el("span", { class: "part" }, "Stream"), el("span", { class: "glimpse" }, words.join(" · "))], () => {
      const player = new StreamPlayer(answer.stream);
      this.#players.push(player);
      return player.element;
    }, { kind: "streamed" });
  }

  // A tool call, beside it what came back: from the prompt that has the result, or from the server that was called.
  #tool(call, use) {
    if (use === null) return toolCard(call, null);
    const notes = use.server === null ? [] : [el("small", { class: "muted" }, ` by ${use.server}`),
      use.made_in === null ? null : [" ", this.#story.link(use.made_in)], use.is_certain ? null : el("small", { class: "muted" }, " (an equal call)")];
    if (use.result_in === null && use.made === null) return toolCard(call, partTitle(el("span", { class: "muted" }, "No result is recorded here")), notes);
    const result = use.result_in === null
      ? later(load(`calls/${use.made}`), (made) => resultOf({ text: endOf(made), is_error: false }))
      : later(load(`calls/${this.#story.byNumber(use.result_in).id}`), (next) => {
        const message = next.messages.find((one) => one.role === "tool" && one.tool_call_id === call.id) ?? null;
        return message === null ? partTitle(["In ", this.#story.link(use.result_in)]) : resultOf(message);
      });
    return toolCard(call, result, notes);
  }

  #server(call) {
    const { mcp } = call;
    if (mcp === null) return [call.messages.map((message) => messageBlock(message)), settingsBlock(call.settings), someOf(call.answers, replyBlock, "answer"), vouchBlock(call)];
    const messages = scriptOf(mcp, this.#info.answer ?? 1);
    return [this.#cause(), this.#outline(),
      foldLine([el("span", { class: "part" }, mcp.method), el("span", { class: "glimpse" }, plural(messages.length, "message"))],
        () => [Object.keys(mcp.parameters).length === 0 ? null : valueBox(mcp.parameters), mcpMessages(messages)], { open: this.#info.answer === null }),
      vouchBlock(call)];
  }
}

// What a server and its client said in answer n; a document cuts what is too long for one.
function scriptOf(mcp, number) {
  const found = number === 1 ? mcp.messages : mcp.then?.[number - 2];
  return Array.isArray(found) ? found : [{ at_ms: 0, "too long to list": found ?? "" }];
}

function replyBlock(answer) {
  return el("div", { class: "message reply" }, partTitle("Reply", answer.status === null || answer.status < 400 ? null : badge("bad", String(answer.status))), textBox(answer.text, { kind: "code" }));
}

function endOf(call) {
  const messages = call.mcp === null ? [] : scriptOf(call.mcp, 1);
  const end = messages.find((message) => "result" in message || "error" in message);
  return end === undefined ? "" : mcpText(end.result ?? end.error);
}

function later(loading, show) {
  const place = el("div", {}, el("p", { class: "muted" }, "…"));
  loading.then((value) => fill(place, show(value)), (error) => fill(place, el("p", { class: "muted" }, error.message)));
  return place;
}

function clockText(seconds) {
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${(seconds - minutes * 60).toFixed(1).padStart(4, "0")}`;
}
