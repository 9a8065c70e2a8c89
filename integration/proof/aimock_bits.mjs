// Flips bits of a fixture file of aimock's, and has its own loader, check and matcher look at each result.
//   node aimock_bits.mjs PACKAGE FILE STRIDE
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [place, file, stride] = process.argv.slice(2);
const { loadFixtureFile, matchFixture, validateFixtures } = await import(pathToFileURL(place));
const logger = { debug() {}, info() {}, warn() {}, error() {} };
const data = readFileSync(file);
const wanted = new Map(
  JSON.parse(data.toString()).fixtures.map(({ match, response }) => [match.userMessage, response.content]),
);

function verdict() {
  let found;
  try {
    found = loadFixtureFile(file, logger);
    if (found.length === 0 || validateFixtures(found).some(({ severity }) => severity === "error")) return "refused";
  } catch {
    return "refused";
  }
  let isMissing = false;
  for (const [question, answer] of wanted) {
    const request = { model: "m", messages: [{ role: "user", content: question }] };
    const fixture = matchFixture(found, request);
    if (fixture === null) isMissing = true;
    else if (fixture.response.content !== answer) return "served wrong";
  }
  return isMissing ? "missed" : "served as recorded";
}

const counts = {};
for (let place = 0; place < 8 * data.length; place += Number(stride)) {
  const changed = Buffer.from(data);
  changed[place >> 3] ^= 1 << (place & 7);
  writeFileSync(file, changed);
  const one = verdict();
  counts[one] = (counts[one] ?? 0) + 1;
}
console.log(JSON.stringify(counts));
