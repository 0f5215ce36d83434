// Which view is shown: the part of the address behind #.

import { key } from "./api.js";
import { alertUser, ask, h, labelled, show } from "./dom.js";
import { collectionsView } from "./collections.js";
import { exploreView } from "./explore.js";
import { duplicatesView } from "./duplicates.js";

const VIEWS = { collections: collectionsView, explore: exploreView, duplicates: duplicatesView };
const main = document.getElementById("main");
let leave = () => {};

async function route() {
  const [view, name] = location.hash.slice(1).split("/").map(decoded);
  const chosen = Object.hasOwn(VIEWS, view) ? view : "collections";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  alertUser("");
  leave();
  // A view of its own place: one that comes late draws where nobody looks.
  const place = h("div", {}, h("p", { className: "soft" }, "Reading…"));
  show(main, place);
  let left = false;
  leave = () => { left = true; };
  try {
    const end = (await VIEWS[chosen](place, name)) || (() => {});
    if (left) { end(); return; }
    leave = end;
    main.focus({ preventScroll: true });
  } catch (error) {
    if (left) return;
    show(place);
    if (error.status === 401) await askKey(key.get() && error.message);
    else alertUser(error.message);
  }
}

// What people type behind # may be anything.
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

async function askKey(refused = "") {
  const input = h("input", { type: "password", autocomplete: "off", value: key.get() });
  const body = h("div", {}, refused ? h("p", { className: "bad" }, refused) : null,
    h("div", { className: "form" }, labelled("Key of memvec keys create", input, "wide")));
  const answer = await ask("This server needs a key", body, [["cancel", "Cancel"], ["use", "Use it", "main"]]);
  if (answer === "use") { key.set(input.value.trim()); route(); }
}

document.getElementById("key").addEventListener("click", () => askKey());
window.addEventListener("hashchange", route);
window.addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name !== "AbortError") alertUser(event.reason?.message || String(event.reason));
});
route();
