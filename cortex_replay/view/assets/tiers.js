// How much a difference matters, in words and in colours.

export const TIERS = {
  contract: { title: "May break code", one: "may break code", many: "may break code", colour: "bad" },
  behaviour: { title: "Acts differently", one: "acts differently", many: "act differently", colour: "warn" },
  words: { title: "Only reworded", one: "only reworded", many: "only reworded", colour: "plain" },
  same: { title: "The same answer", one: "the same answer", many: "with the same answer", colour: "plain" },
};
