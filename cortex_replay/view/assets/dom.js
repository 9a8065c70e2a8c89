// Elements are made here and nowhere else. Whatever was recorded becomes a text node.

// Control characters, bidi marks and other invisible ones would change what a reader sees.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

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
    else if (name === "aria") for (const [key, text] of Object.entries(value)) made.setAttribute(`aria-${key}`, text);
    else made.setAttribute(name, value === true ? "" : value);
  }
  return fill(made, ...children);
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(visible(c)))));
  return parent;
}
