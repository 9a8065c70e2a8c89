// Light, dark, or as the system has it. The choice is kept where the browser allows that.

import { el, fill } from "./dom.js";

const THEMES = ["auto", "light", "dark"];
const THEME_WORDS = { auto: "Auto", light: "Light", dark: "Dark" };
const THEME_PLACE = "cortex-replay theme";

let theme = "auto";

export function themeButton() {
  theme = keptTheme();
  const button = el("button", { type: "button", class: "quiet theme", title: "Light or dark (t)", onclick: changeTheme });
  return dress(button);
}

export function changeTheme() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try {
    localStorage.setItem(THEME_PLACE, theme);
  } catch {
    // A private window forgets it.
  }
  dress(document.querySelector("button.theme"));
}

function dress(button) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.setAttribute("aria-label", `Theme: ${THEME_WORDS[theme]}`);
  return fill(button, "\u25d0 ", THEME_WORDS[theme]);
}

function keptTheme() {
  try {
    const found = localStorage.getItem(THEME_PLACE);
    return THEMES.includes(found) ? found : "auto";
  } catch {
    return "auto";
  }
}
