// The blocks that a step of a conversation is made of: messages, tool calls, what the cache did, what vouches for it.

import { el, fill } from "./dom.js";
import { countText, plural, sizeText } from "./figures.js";
import { load } from "./source.js";
import { badge } from "./tables.js";
import { copyButton, foldLine, plainText, saveText, someOf, textBox, valueBox } from "./texts.js";

const ROLES = { user: "User", assistant: "Model", tool: "Tool result", system: "System" };
const LONG = 700; // characters of a system text that is folded
const PLAIN_ENDS = new Set(["stop", "end_turn", "tool_calls", "tool_use", "completed", "STOP", "stop_sequence"]);
const CUT_ENDS = new Set(["length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "incomplete"]);
const REFUSALS = new Set(["refusal", "content_filter", "SAFETY", "safety", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "guardrail_intervened"]);
const STATES = { read: "read from the cache", written: "written to the cache", fresh: "not cached" };

export function partTitle(words, ...beside) {
  return el("h4", { class: "part" }, words, beside);
}

export function systemBlock(text, words = "System prompt") {
  if (text.length <= LONG) return el("div", { class: "message system" }, partTitle(words), textBox(text));
  return foldLine([el("span", { class: "part" }, words), el("span", { class: "size" }, sizeText(text.length)), el("span", { class: "glimpse" }, text.slice(0, 160))],
    () => textBox(text), { kind: "message system" });
}

// What is another text now: where it begins and ends alike, only what lies between.
export function changedText(before, now) {
  const least = Math.min(before.length, now.length);
  let start = 0;
  while (start < least && before[start] === now[start]) start += 1;
  let end = 0;
  while (end < least - start && before.at(-1 - end) === now.at(-1 - end)) end += 1;
  const excerpt = (text) => {
    const line = text.indexOf("\n", text.length - end);
    const [from, till] = [Math.max(text.lastIndexOf("\n", start - 1) + 1, start - 80), Math.min(line === -1 ? text.length : line, text.length - end + 40)];
    return textBox(`${from > 0 && text[from - 1] !== "\n" ? "…" : ""}${text.slice(from, till)}${till < text.length && till !== line ? "…" : ""}`, { start: 1000 });
  };
  return el("div", { class: "changed" }, el("del", {}, el("span", { class: "unseen" }, "Before: "), excerpt(before)), el("ins", {}, el("span", { class: "unseen" }, "Now: "), excerpt(now)));
}

export function toolsBlock(tools) {
  return foldLine([el("span", { class: "part" }, `${plural(tools.length, "tool")} offered`), el("span", { class: "glimpse" }, tools.map((tool) => tool.name).slice(0, 12).join(", "))],
    () => el("ul", { class: "offers" }, someOf(tools, (tool) => el("li", {},
      el("code", {}, tool.name), el("p", { class: "muted" }, tool.description.slice(0, 300)),
      foldLine("Definition", () => textBox(plainText(tool.definition), { kind: "code" }))), "tool")));
}

export function settingsBlock(settings) {
  const names = Object.keys(settings);
  if (names.length === 0) return null;
  return foldLine([el("span", { class: "part" }, "Settings"), el("span", { class: "glimpse" }, names.map((name) => `${name} ${plainText(settings[name]).slice(0, 40)}`).join(" · "))],
    () => valueBox(settings));
}

export function messageBlock(message, toolName = "") {
  const isTool = message.role === "tool";
  const words = isTool && toolName !== "" ? `Result of ${toolName}` : ROLES[message.role] ?? message.role;
  return el("div", { class: `message ${ROLES[message.role] === undefined ? "" : message.role} ${message.is_error ? "failed" : ""}` },
    partTitle(words, message.is_error ? badge("bad", "error") : null),
    someOf(message.parts ?? [], partBlock, "part"),
    message.text === "" && (message.tool_calls ?? []).length > 0 ? null : textBox(message.text === "" ? "(no text)" : message.text, { kind: isTool ? "code" : "" }),
    someOf(message.tool_calls ?? [], (call) => toolCard(call, null), "call"));
}

function partBlock(part) {
  if (part.kind === "thinking") return reasoningBlock(part.text);
  return foldLine([el("span", { class: "part" }, part.kind), el("span", { class: "glimpse" }, part.text.slice(0, 120))], () => textBox(part.text, { kind: "code" }));
}

export function reasoningBlock(text) {
  return foldLine([el("span", { class: "part" }, "Reasoning"), el("span", { class: "size" }, sizeText(text.length)), el("span", { class: "glimpse" }, text.slice(0, 160))],
    () => textBox(text), { kind: "reasoning" });
}

// A tool call and its result beside each other; the result is an element that may be filled later.
export function toolCard(call, result, ...notes) {
  return el("div", { class: "toolcard" },
    el("div", { class: "side" }, partTitle(["Calls ", el("code", {}, call.name)], notes), valueBox(call.arguments)),
    result === null ? null : el("div", { class: "side result" }, result));
}

export function resultOf(message, beside) {
  return [partTitle("Result", message.is_error ? badge("bad", "error") : null, beside),
    textBox(message.text === "" ? "(nothing)" : message.text, { start: 1500, kind: "code" }), someOf(message.parts ?? [], partBlock, "part")];
}

// How an answer ended, where that is something to notice.
export function endBadge(reason) {
  if (reason === null || PLAIN_ENDS.has(reason)) return null;
  if (REFUSALS.has(reason)) return badge("bad", `refused: ${reason}`);
  return badge("warn", CUT_ENDS.has(reason) ? `cut off: ${reason}` : `ended: ${reason}`);
}

export function failureBlock(failure) {
  return el("p", { class: "alert failure" }, el("strong", {}, failure.status ? `Failed with ${failure.status}. ` : "Failed. "), failure.text);
}

// What the provider read from its cache, where that ended, and why.
export function cacheBlock(cache) {
  const percent = Math.floor(cache.share * 100);
  const words = `${countText(cache.read)} of ${countText(cache.tokens)} prompt tokens from the cache (${percent} %)${cache.written ? `, ${countText(cache.written)} written` : ""}`;
  const how = cache.is_reported ? "" : " by our simulation; the provider did not say";
  return el("div", { class: "cache" },
    el("div", { class: "bar", role: "img", aria: { label: words } }, cache.blocks.map((block) => segment(block, cache))),
    cache.broke_at === null ? null : el("p", { class: "broke" }, badge("warn", "cache broke"), ` ${sentence(cache.why[0] ?? `at ${cache.broke_at}`)}`),
    foldLine([words, how], () => [
      cache.why.slice(cache.broke_at === null ? 0 : 1).map((why) => el("p", {}, sentence(why))),
      el("table", { class: "blocks" }, el("caption", { class: "unseen" }, "The prompt in blocks"),
        el("thead", {}, el("tr", {}, ["Block", "Tokens", "Cache", "Marker"].map((name, at) => el("th", { scope: "col", class: at === 1 ? "number" : "" }, name)))),
        el("tbody", {}, cache.blocks.map((block) => el("tr", {}, el("th", { scope: "row" }, block.name),
          el("td", { class: "number" }, countText(block.tokens)), el("td", {}, STATES[block.state] ?? "", block.name === cache.broke_at ? " – it broke here" : ""), el("td", {}, block.mark)))))]));
}

function sentence(text) {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;
}

function segment(block, { blocks: all, broke_at: broken }) {
  const made = el("span", { class: `${Object.hasOwn(STATES, block.state) ? block.state : ""} ${block.mark === "" ? "" : "marked"} ${block.name === broken ? "broken" : ""}`,
    title: `${block.name}: ${plural(block.tokens, "token")}, ${STATES[block.state] ?? "unknown"}${block.mark === "" ? "" : `; marker for ${block.mark} behind it`}` });
  const whole = all.reduce((sum, one) => sum + one.tokens, 0);
  made.style.width = `${whole === 0 ? 100 / all.length : (100 * block.tokens) / whole}%`;
  return made;
}

// The key, the row of the index that vouches for it, where it came from, and the bytes.
export function vouchBlock(call) {
  return foldLine([el("span", { class: "part" }, "Recording"), el("code", { class: "glimpse" }, `${call.key.slice(0, 16)}… ${call.path}`)], () => [
    el("dl", { class: "facts" },
      fact("Key", call.key), fact("File", call.path), fact("BLAKE3", call.blake3), call.facts.map(([name, text]) => fact(name, text))),
    partTitle("The line of INDEX.toml that vouches for it", copyButton(call.index_line, "the line")),
    textBox(call.index_line, { kind: "code" }),
    rawBlock(call)], { kind: "vouch" });
}

function fact(name, text) {
  return [el("dt", {}, name), el("dd", {}, el("code", {}, text), name === "Key" ? copyButton(text, "the key") : null)];
}

function rawBlock(call) {
  return foldLine([el("span", { class: "part" }, "Raw bytes"), call.is_cut ? " This page shows the start of long texts; the file has all of them." : ""], () => {
    const place = el("div", {}, el("p", { class: "muted", role: "status" }, "Loading…"));
    load(`raw/${call.id}`).then((raw) => fill(place, rawView(raw, call)), (error) => fill(place, el("p", { class: "alert", role: "alert" }, error.message)));
    return place;
  }, { kind: "raw" });
}

function rawView(raw, call) {
  return [
    el("p", { class: "controls" }, `${sizeText(raw.bytes)} `, copyButton(raw.text, "the file"),
      el("button", { type: "button", class: "quiet small", onclick: () => saveText(raw.text, call.path.split("/").at(-1)) }, "Save"),
      raw.is_redacted ? badge("warn", "secrets are cut out here") : null),
    textBox(raw.text, { kind: "code", start: 16000 })];
}

// What was said in a call of an MCP server, message by message.
export function mcpMessages(messages) {
  return el("ol", { class: "script" }, someOf(messages, (message) => {
    const kind = Object.keys(message).find((name) => name !== "at_ms") ?? "";
    const value = message[kind];
    const isError = kind === "error" || value?.isError === true;
    return el("li", { class: isError ? "failed" : "" },
      partTitle(`${kind === "result" && isError ? "tool error" : kind}${typeof value?.method === "string" ? ` ${value.method}` : ""}`, el("small", { class: "muted" }, ` ${countText(message.at_ms ?? 0)} ms`)),
      textBox(mcpText(value), { start: 1500, kind: "code" }));
  }, "message"));
}

// What a result says, where it is made of texts; else all of it.
export function mcpText(value) {
  const content = Array.isArray(value?.content) ? value.content : [];
  if (content.length > 0 && content.every((block) => typeof block?.text === "string")) return content.map((block) => block.text).join("\n");
  return plainText(value);
}
