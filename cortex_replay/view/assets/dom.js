// Elements are made here and nowhere else. Whatever was recorded becomes a text node.

// Control characters, bidi marks and other invisible ones would change what a reader sees.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
// An address leads to a place on this page, to one of its documents, or to bytes that the page has made.
const OWN_ADDRESS = /^(#|data\/|blob:)/;
const NEVER = new Set(["style", "src", "srcdoc", "srcset", "action", "formaction"]);

export function visible(text) {
  return String(text).replace(HIDDEN, (c) => {
    const code = c.codePointAt(0);
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\u27e8${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

// el("button", {class: "key", onclick: f, aria: {label: "Play"}}, "text", child, …)
export function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "aria") setAria(made, value);
    else made.setAttribute(name, attribute(name, value));
  }
  return fill(made, ...children);
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(visible(c)))));
  return parent;
}

// Our own sentences, with `code` in them.
export function prose(text) {
  return text.split("`").map((part, at) => (at % 2 === 0 ? part : el("code", {}, part)));
}

function setAria(element, values) {
  for (const [key, value] of Object.entries(values)) {
    if (value !== undefined && value !== null) element.setAttribute(`aria-${key}`, visible(value));
  }
}

function attribute(name, value) {
  if (value === true) return "";
  if (NEVER.has(name)) throw new Error(`no element gets the attribute ${name}`);
  if (name === "href" && !OWN_ADDRESS.test(value)) throw new Error("a link leads to this page only");
  return name === "title" || name === "placeholder" ? visible(value) : value;
}
