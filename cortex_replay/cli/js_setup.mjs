// Written by `cortex-replay init --js`. It is yours: change it as you like.
//
// Behind `cortex-replay record -- ...` and `cortex-replay replay -- ...` each test counts its answers by itself, so
// that files may run in parallel; and a test that asks something that is not recorded fails with the reason.
// In any other run it does nothing.
import { afterAll, afterEach, beforeEach } from "vitest";

const gateway = process.env.CORTEX_REPLAY_GATEWAY ?? "";
const run = Math.random().toString(36).slice(2); // a file that runs again, as in watch mode, counts anew

/** @type {{ scope: string, misses: string[], isWrapped?: boolean }} */
const state = (/** @type {any} */ (globalThis)[Symbol.for("cortex-replay")] ??= { scope: "", misses: [] });

/**
 * The base URL of a provider in the scope of the test that runs: only for a client that does not use `fetch`.
 *
 * @param {string} provider `openai`, `anthropic`, `ollama`, `gemini` or the name of a configured one
 */
export function scopedUrl(provider) {
  return `${gateway}${current() && `/s-${current()}`}/${provider}`;
}

/** @param {Response} response */
async function reasonIn(response) {
  const text = await response.clone().text();
  try {
    const { error } = JSON.parse(text);
    return String(error?.message ?? error);
  } catch {
    return text;
  }
}

/** @param {typeof fetch} send @returns {typeof fetch} */
const scoped = (send) => async (input, init) => {
  const asked = typeof input === "object" && "url" in input ? input : undefined;
  if (!(asked?.url ?? String(input)).startsWith(`${new URL(gateway).origin}/`)) return send(input, init);
  const { misses } = state; // those of now: the answer may come when another test runs
  const headers = new Headers(init?.headers ?? asked?.headers);
  if (current()) headers.set("x-cortex-replay-scope", current());
  const response = await send(input, { ...init, headers });
  if (response.status === 424) misses.push(await reasonIn(response));
  return response;
};

/**
 * Whose answers they are, and what is counted by itself: a test is known by its name, and each of its runs counts anew.
 *
 * @param {string} test @param {string} [turn]
 */
const scopeOf = (test, turn = "") => encodeURIComponent(`${test}\u001f${turn}${run}`);

/** @param {string} [shown] what the report shows anyway */
function end(shown = "") {
  const misses = [...new Set(state.misses)].filter((reason) => !shown.includes(reason));
  state.scope = "";
  state.misses = [];
  if (misses.length === 0) return;
  const error = new Error(misses.join("\n\n"));
  error.stack = error.message; // no line of this file has anything to do with it
  throw error;
}

if (gateway && typeof fetch === "function") {
  if (!state.isWrapped) globalThis.fetch = scoped(globalThis.fetch);
  state.isWrapped = true;
  afterAll(() => end());
}

// Nobody can tell which of several concurrent tests asks. They have no scope, and each question has one answer.
const current = () => state.scope;
/** @param {any} task @returns {string} */
const nameOf = (task) => (task.suite?.name ? `${nameOf(task.suite)} > ${task.name}` : task.name);
if (gateway) {
  beforeEach(({ task }) => {
    state.scope = task.concurrent ? "" : scopeOf(`${task.file.name} > ${nameOf(task)}`, task.id);
  });
  afterEach(({ task }) => {
    if (!task.concurrent) end(task.result?.errors?.map((error) => error.message).join("\n"));
  });
}
