// The page: which screen is shown, and how one gets there. An address is "#/screen/id/…".

import { el, fill } from "./dom.js";
import { load } from "./source.js";
import { SCREENS } from "./screens.js";

function addressOf(hash) {
  const [screen, ...rest] = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return { screen, rest };
}

async function show(page) {
  const { screen, rest } = addressOf(location.hash);
  const name = Object.hasOwn(SCREENS, screen) ? screen : page.screens[0];
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.screen === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const main = document.querySelector("main");
  try {
    await SCREENS[name].show(main, rest, page);
  } catch (error) {
    fill(main, el("p", { role: "alert" }, error.message));
  }
}

async function start() {
  const page = await load("page");
  document.title = page.title;
  const links = page.screens.filter((name) => Object.hasOwn(SCREENS, name))
    .map((name) => el("a", { href: `#/${name}`, "data-screen": name }, SCREENS[name].title));
  fill(document.getElementById("page"),
    el("header", {}, el("h1", {}, page.title), el("nav", { aria: { label: "Screens" } }, links)),
    el("main", { tabindex: "-1" }));
  addEventListener("hashchange", () => show(page));
  await show(page);
}

start().catch((error) => fill(document.getElementById("page"), el("p", { role: "alert" }, error.message)));
