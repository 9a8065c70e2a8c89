// The screens by name. Each has a title and show(root, rest, page): root is the element to fill, rest the parts of the
// address behind the name, page the document "page". The class of root is "on-NAME", for styles. It may return an object
// with some of these: keys, functions by key; help, what they do as [key, words]; update(rest), which shows another address
// within the screen and says whether it could; returned(), for when the reader comes back to it; keepsPlace, if it has
// scrolled to a place of its own; stop(), for when something else is shown.

import { showChange } from "./change.js";
import { showConversation } from "./conversation.js";
import { showReport } from "./report.js";
import { showStore } from "./store.js";

export const SCREENS = {
  store: { title: "Store", show: showStore },
  conversation: { title: "Conversation", show: showConversation },
  change: { title: "Change", show: showChange },
  run: { title: "Run", show: showReport },
};
