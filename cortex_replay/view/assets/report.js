// A run: what a ledger, a sweep or a watch on drift has to say.

import { el, fill } from "./dom.js";
import { countText, plural, shortCount } from "./figures.js";
import { changeItem, wordsItem } from "./change_item.js";
import { load } from "./source.js";
import { SweepMatrix } from "./sweep.js";
import { badge, breakable, figureList, tableOf } from "./tables.js";
import { TIERS } from "./tiers.js";

const DRIFT_TIERS = ["contract", "behaviour", "words"].map((tier) => [tier, TIERS[tier].title]);

export async function showReport(root, rest, _page) {
  const report = await load("report");
  if (report.kind === "sweep") return showSweep(root, rest, report);
  fill(root, report.kind === "drift" ? driftElements(report) : runElements(report));
  return null;
}

function showSweep(root, rest, { sweep, name }) {
  const matrix = new SweepMatrix(sweep);
  const tried = sweep.cells.filter((cell) => cell.verdict !== "not applicable");
  const survived = tried.filter((cell) => cell.verdict === "survived").length;
  const calls = [sweep.calls ? plural(sweep.calls, "call") : null, sweep.tool_calls ? plural(sweep.tool_calls, "tool call") : null].filter((one) => one !== null).join(" and ");
  fill(root, reportHeading("Sweep", name),
    verdictLine(sweep.survived, `The command survived ${countText(survived)} of ${plural(tried.length, "fault")}, over ${calls}.${sweep.survived && survived < tried.length ? " The others were allowed." : ""}`),
    matrix.elements());
  matrix.select(cellIn(rest));
  return { keys: matrix.keys, help: matrix.help, keepsPlace: rest.length > 0, update: (other) => { matrix.select(cellIn(other)); return true; } };
}

function reportHeading(title, name) {
  return el("div", {}, el("h2", {}, title), el("p", { class: "muted" }, name));
}

function cellIn(rest) {
  return /^\d+$/.test(rest[0] ?? "") ? Number(rest[0]) : -1;
}

function verdictLine(isGood, words) {
  return el("p", { class: isGood ? "verdict" : "verdict bad" }, words);
}

function runElements({ runs, varying, name }) {
  if (runs.length === 1) return [reportHeading("Run", name), ledgerElements(runs[0])];
  return [
    reportHeading(plural(runs.length, "run"), name),
    varying.length ? reportSection("What varies", varying.map(variationEntry)) : verdictLine(true, "Every run asked the same."),
    runs.map((run, at) => el("section", { class: "screen" }, el("h3", {}, `Run ${at + 1}`), ledgerElements(run))),
  ];
}

function ledgerElements(run) {
  const { counts, tokens } = run;
  const ended = run.command_status === null ? null : String(run.command_status);
  return [
    runVerdict(run),
    figureList([
      ["Mode", run.mode], ["Exit status", ended],
      ["From recordings", countText(counts.hits ?? 0)],
      ["Missed", countText(counts.missed ?? 0)],
      ...someCounts(counts, [["recorded", "Recorded"], ["live", "Live calls"], ["repeated", "Asked again"], ["failed", "Failed"], ["unsent", "Not sent"], ["declined", "Refused by policy"]]),
      ["Paid", run.paid, tokens.prompt ? `${shortCount(tokens.prompt)} + ${shortCount(tokens.completion ?? 0)} tokens` : ""],
      run.paid === null && tokens.prompt ? ["Tokens paid", `${shortCount(tokens.prompt)} + ${shortCount(tokens.completion ?? 0)}`] : [],
      ["Saved", run.saved, tokens.replayed ? `${shortCount(tokens.replayed)} tokens` : ""],
      run.saved === null && tokens.replayed ? ["Tokens saved", shortCount(tokens.replayed)] : [],
    ]),
    run.misses.length ? reportSection(`Missed (${countText(counts.missed ?? run.misses.length)})`, run.misses.map((miss, at) => reportFold(at < 3, [miss.what, miss.times > 1 ? ` × ${countText(miss.times)}` : null], el("pre", {}, miss.explanation)))) : null,
    run.problems.map((group) => reportSection(group.title, group.texts)),
    run.bypassed.length ? tableOf("Refused: calls around the gateway", [["Host", ""], ["Times", "number"]], run.bypassed.map(([host, times]) => [host, countText(times)])) : null,
    run.servers.length ? tableOf("MCP servers", [["Server", ""], ["From recordings", "number"], ["Missed", "number"], ["Recorded", "number"], ["Live", "number wide"], ["Failed", "number wide"]],
      run.servers.map((server) => [server.name, ...["hits", "missed", "recorded", "live", "failed"].map((key) => countText(server[key]))])) : null,
    run.remarks.length ? reportSection("Remarks", run.remarks.map(([text, times]) => (times > 1 ? `${text} (${countText(times)} times)` : text))) : null,
    run.unused_count ? tableOf(`Unused recordings (${countText(run.unused_count)})`, [["Path", ""], ["From", "wide"], ["Test or run", "wide"]], run.unused.map((row) => [breakable(row.path), row.who, row.scope === "" ? "" : breakable(row.scope)])) : null,
  ];
}

function someCounts(counts, names) {
  return names.filter(([key]) => counts[key]).map(([key, words]) => [words, countText(counts[key])]);
}

function runVerdict({ counts, problems, command_status: status }) {
  const missed = counts.missed ?? 0;
  if (missed > 0) return verdictLine(false, `${plural(missed, "call")} found no recording.`);
  if (problems.length > 0) return verdictLine(false, `${problems[0].title}: ${countText(problems[0].texts.length)}.`);
  if (status) return verdictLine(false, `The command ended with status ${status}. Every call was answered.`);
  if ((counts.live ?? 0) > 0) return verdictLine(true, `${plural(counts.live, "call")} went out, ${countText(counts.recorded ?? 0)} recorded.`);
  return (counts.hits ?? 0) > 0 ? verdictLine(true, "Every call was answered from recordings.") : verdictLine(false, "No call was made.");
}

function reportSection(title, entries) {
  return el("section", { class: "stack" }, el("h3", {}, title), el("ul", { class: "entries" }, entries.map((entry) => el("li", {}, entry))));
}

function reportFold(isOpen, title, ...content) {
  return el("details", { open: isOpen }, el("summary", {}, title), content);
}

function variationEntry(one) {
  const where = [one.scope, one.call === null ? null : `call ${one.call}`, `runs ${one.runs.join(", ")}`].filter(Boolean).join(" · ");
  return reportFold(true, [one.question || "A call", " ", one.is_noise ? badge("plain", "noise") : null],
    el("p", { class: "muted" }, where), one.differences.length ? el("pre", {}, one.differences.join("\n")) : null);
}

function driftElements({ drift, name }) {
  const isBad = drift.tiers.contract + drift.tiers.behaviour > 0;
  const good = drift.asked === 0 ? "No recording was asked again." : "The model still does what you recorded.";
  return [
    reportHeading("Drift", name),
    verdictLine(!isBad && drift.asked > 0, isBad ? "The model does not do what you recorded any more." : good),
    figureList([
      ["Asked again", countText(drift.asked)], ...DRIFT_TIERS.map(([tier, words]) => [words, countText(drift.tiers[tier])]),
      ["Paid", drift.paid], ["Beyond the budget", drift.beyond_budget ? countText(drift.beyond_budget) : null], ["Files written", drift.written.length || null],
    ]),
    el("div", { class: "changes" }, DRIFT_TIERS.map(([tier, words]) => driftGroup(drift.items.filter((item) => item.tier === tier), words, tier))),
    drift.failed.length ? reportSection("Failed", drift.failed) : null,
    drift.not_asked.length ? tableOf("Not asked", [["Why", ""], ["Recordings", "number"]], drift.not_asked.map(([reason, times]) => [reason, countText(times)])) : null,
  ];
}

function driftGroup(items, words, tier) {
  if (items.length === 0) return null;
  const isFolded = tier === "words";
  return el("section", { class: "tier-section" }, el("h3", {}, `${words} (${countText(items.length)})`),
    el("div", { class: isFolded ? "fold-section" : null }, el("div", { class: "items" }, items.map((item) => (isFolded ? wordsItem(item, { links: () => null }) : changeItem(item))))));
}
