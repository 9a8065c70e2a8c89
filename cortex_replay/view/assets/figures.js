// Numbers, sizes and times as people read them.

const COUNT = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const DATE = new Intl.DateTimeFormat("en", { year: "numeric", month: "short", day: "numeric" });
const MOMENT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
const SIZES = ["B", "kB", "MB", "GB", "TB"];
const AGES = [[365 * 86400, "y"], [30 * 86400, "mo"], [7 * 86400, "w"], [86400, "d"], [3600, "h"], [60, "min"]];

export function countText(number) {
  return COUNT.format(number);
}

export function shortCount(number) {
  return number < 10000 ? COUNT.format(number) : SHORT.format(number);
}

// plural(1, "call") is "1 call"
export function plural(number, word, words = `${word}s`) {
  return `${COUNT.format(number)} ${number === 1 ? word : words}`;
}

export function sizeText(bytes) {
  let at = 0;
  let size = bytes;
  for (; size >= 1000 && at < SIZES.length - 1; at += 1) size /= 1000;
  return `${size >= 100 || at === 0 ? Math.round(size) : size.toFixed(1)} ${SIZES[at]}`;
}

export function dateText(seconds) {
  return seconds === null ? "" : DATE.format(seconds * 1000);
}

export function momentText(seconds) {
  return seconds === null ? "" : MOMENT.format(seconds * 1000);
}

export function ageText(seconds, now = Date.now() / 1000) {
  if (seconds === null) return "";
  const unit = AGES.find(([length]) => now - seconds >= length);
  return unit === undefined ? "just now" : `${Math.floor((now - seconds) / unit[0])} ${unit[1]}`;
}

export function agoText(seconds) {
  const age = ageText(seconds);
  return age === "" || age === "just now" ? age : `${age} ago`;
}

export function durationText(seconds) {
  if (seconds === null) return "";
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Of one call, where hundredths count.
export function secondsText(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

export function tokensOf(spent) {
  return spent === null ? 0 : spent.prompt + spent.completion;
}
