// The page: which screen is shown, and how one gets there. An address is "#/screen/id/…".

import { el, fill, prose } from "./dom.js";
import { listenToKeys, showHelp } from "./keys.js";
import { load } from "./source.js";
import { SCREENS } from "./screens.js";
import { themeButton } from "./theme.js";

const shown = { name: "", control: null, turn: 0, entry: 0, entries: 0 };
const places = new Map(); // how far each entry of the history was scrolled

function addressOf(hash) {
  const [screen, ...rest] = hash.replace(/^#\/?/, "").split("/").map(decodePart);
  return { screen, rest: rest.filter((part) => part !== "") };
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody typed a lone "%"
  }
}

async function showScreen(page, names, { isFirst = false, then = null } = {}) {
  const { screen, rest } = addressOf(location.hash);
  const name = names.includes(screen) ? screen : names[0];
  const isBack = noteEntry();
  const place = places.get(shown.entry) ?? 0; // before the page is empty, and scrolled to its top by that
  if (name === shown.name && shown.control?.update?.(rest)) return;
  const turn = ++shown.turn;
  shown.control?.stop?.();
  Object.assign(shown, { name, control: null });
  markTab(name);
  document.title = name === undefined ? page.title : `${SCREENS[name].title} · ${page.title}`;
  const root = el("div", { class: `screen on-${name}` }, el("p", { class: "muted", role: "status" }, "Loading…"));
  fill(document.querySelector("main"), root);
  let control = null;
  try {
    if (name === undefined) fill(root, el("h2", {}, "Nothing to look at"), el("p", {}, prose("Nothing is recorded here yet. `cortex-replay record -- COMMAND` records what a command asks.")));
    else control = await SCREENS[name].show(root, rest, page);
  } catch (error) {
    fill(root, el("h2", {}, SCREENS[name].title), el("p", { role: "alert", class: "alert" }, prose(error.message)));
  }
  if (turn !== shown.turn) {
    control?.stop?.(); // something else was wanted meanwhile
    return;
  }
  shown.control = control ?? null;
  if (isBack) {
    scrollTo(0, place);
    if (!isFirst) control?.returned?.();
  } else if (!isFirst && !control?.keepsPlace) arrive(root);
  then?.();
}

// Whether the reader came back to an entry of the history, rather than to a new one.
function noteEntry() {
  const known = history.state?.entry;
  shown.entry = known ?? ++shown.entries;
  shown.entries = Math.max(shown.entries, shown.entry);
  if (known === undefined) history.replaceState({ entry: shown.entry }, "");
  return known !== undefined;
}

function arrive(root) {
  scrollTo(0, 0);
  const heading = root.querySelector("h2");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
}

function markTab(name) {
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.screen === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function startPage() {
  const page = await load("page");
  const names = page.screens.filter((name) => Object.hasOwn(SCREENS, name));
  const links = names.map((name, at) => el("a", { href: `#/${name}`, "data-screen": name, title: `Key ${at + 1}` }, SCREENS[name].title));
  fill(document.getElementById("page"),
    el("a", { class: "skip", href: "#main", onclick: skipToMain }, "Skip to the content"),
    el("header", { class: "top" },
      el("h1", { title: page.title }, page.title),
      links.length > 1 ? el("nav", { aria: { label: "Screens" } }, links) : null,
      el("div", { class: "tools" }, themeButton(),
        el("button", { type: "button", class: "quiet", title: "Keys (?)", onclick: () => showHelp(shown.control), aria: { label: "Help: keys" } }, "?"))),
    el("main", { id: "main", tabindex: "-1" }),
    el("footer", {}, footnote(page)),
    el("p", { id: "announcement", class: "unseen", role: "status", aria: { live: "polite" } }));
  history.scrollRestoration = "manual";
  let next = null;
  addEventListener("scroll", () => places.set(shown.entry, scrollY), { passive: true });
  addEventListener("hashchange", () => {
    const then = next;
    next = null;
    showScreen(page, names, { then });
  });
  listenToKeys({
    control: () => shown.control,
    names,
    go: (name, then = null) => {
      if (shown.name === name && addressOf(location.hash).rest.length === 0) return;
      next = then;
      location.hash = `#/${name}`;
    },
    back: () => { if (shown.entry > 1) history.back(); },
  });
  await showScreen(page, names, { isFirst: true });
}

function skipToMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function footnote(page) {
  const made = new Date(page.made_at);
  const when = Number.isNaN(made.getTime()) ? "" : ` · ${made.toLocaleString()}`;
  return `cortex-replay ${page.version}${when}`;
}

startPage().catch((error) => fill(document.getElementById("page"), el("p", { role: "alert", class: "alert" }, prose(error.message))));
