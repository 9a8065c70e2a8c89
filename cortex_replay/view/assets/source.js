// Where documents come from: the server of a live page, or the file itself.

const keptDocuments = new Map();
const MOST_KEPT = 200;
const GONE = "The page cannot reach its server. Is `cortex-replay view` still running? Start it again, and open the address that it prints.";

// A file has all of its documents. A live page asks, and asks again for those that it has not used for long.
export async function load(name) {
  const found = keptDocuments.get(name) ?? unpackDocument(name) ?? ask(name);
  keptDocuments.delete(name);
  keptDocuments.set(name, found);
  if (keptDocuments.size > MOST_KEPT) keptDocuments.delete(keptDocuments.keys().next().value);
  try {
    return await found;
  } catch (error) {
    keptDocuments.delete(name);
    throw error;
  }
}

export async function ask(name, signal) {
  let answer;
  try {
    answer = await fetch(`data/${name}`, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(GONE);
  }
  if (answer.ok) return answer.json();
  throw new Error(answer.status === 404 ? "The store has no such recording now. It may have changed: go back, and load the page again." : await answer.text());
}

export function isFile() {
  return document.documentElement.dataset.file !== undefined;
}

function unpackDocument(name) {
  const element = document.getElementById(`data:${name}`);
  if (element === null) return isFile() ? Promise.reject(new Error("This file does not have it. `cortex-replay view` shows the whole store.")) : null;
  const binary = atob(element.textContent.trim());
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}
