// The keyboard. A screen has keys of its own; what it does not take is for the page.

import { el, fill } from "./dom.js";
import { changeTheme } from "./theme.js";

const PAGE_KEYS = [
  ["1 – 4", "a screen, in the order of the tabs"],
  ["/", "search"],
  ["j  k", "next, previous"],
  ["Enter", "open"],
  ["Esc", "back"],
  ["t", "light or dark"],
  ["?", "this help"],
];

const TYPING = "input:not([type=checkbox], [type=radio], [type=range]), textarea, select";

// control() gives what the current screen returned; go(name) shows a screen; back() goes back.
export function listenToKeys({ control, names, go, back }) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]") !== null) return;
    const field = event.target.closest?.(TYPING);
    if (field) {
      // The first Escape empties a search; that is the browser's.
      if (event.key === "Escape" && (field.type !== "search" || field.value === "")) field.blur();
      return;
    }
    if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
    const taken = control()?.keys?.[event.key] ?? pageKey(event.key, { control, names, go, back });
    if (taken === undefined) return;
    event.preventDefault();
    taken(event);
  });
}

function pageKey(key, { control, names, go, back }) {
  if (key === "?") return () => showHelp(control());
  if (key === "t") return changeTheme;
  if (key === "Escape") return back;
  if (key === "/") return () => searchFrom(names, go);
  const name = /^[1-9]$/.test(key) ? names[Number(key) - 1] : undefined;
  return name === undefined ? undefined : () => go(name);
}

function searchFrom(names, go) {
  const field = document.querySelector("main input[type=search]");
  if (field !== null) field.focus();
  else if (names.includes("store")) go("store", () => document.querySelector("main input[type=search]")?.focus());
}

export function showHelp(control) {
  const close = el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close");
  const dialog = el("dialog", { aria: { labelledby: "help-title" }, onclose: () => dialog.remove() },
    el("h2", { id: "help-title" }, "Keys"),
    keyTable(PAGE_KEYS),
    control?.help?.length ? [el("h3", {}, "On this screen"), keyTable(control.help)] : null,
    el("p", { class: "muted" }, "Everything recorded is shown as text. Characters that would be invisible, or would turn the text around, are spelled out: ⟨202E⟩."),
    close);
  document.body.append(dialog);
  dialog.showModal();
}

function keyTable(rows) {
  return el("dl", { class: "keys" }, rows.map(([keys, words]) => [
    el("dt", {}, keys.split("  ").map((key) => el("kbd", {}, key))), el("dd", {}, words)]));
}

export function announce(text) {
  const place = document.getElementById("announcement");
  if (place !== null && place.textContent !== text) fill(place, text);
}
