// Where documents come from: the server of a live page, or the file itself.

const kept = new Map();

export async function load(name) {
  if (!kept.has(name)) kept.set(name, unpack(name) ?? ask(name));
  try {
    return await kept.get(name);
  } catch (error) {
    kept.delete(name);
    throw error;
  }
}

export async function ask(name) {
  const answer = await fetch(`data/${name}`);
  if (!answer.ok) throw new Error(answer.status === 404 ? "There is no such recording." : await answer.text());
  return answer.json();
}

function unpack(name) {
  const element = document.getElementById(`data:${name}`);
  if (element === null) return document.documentElement.dataset.file === undefined ? null : Promise.reject(new Error("This file does not have it."));
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}
