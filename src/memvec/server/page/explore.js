// Explore: a query, a threshold over the scores of all items, and what is above it.

import { at, get, post, stream } from "./api.js";
import { hasLaw, histogramChart, pText, pValue, stagesChart } from "./charts.js";
import { about, alertUser, ask, chance, count, debounced, h, labelled, parsed, select, show } from "./dom.js";
import { itemCard, readItems, shownId, typedId } from "./items.js";

const MOST_CARDS = 60;

export async function exploreView(main, given) {
  const [{ collections }, about] = await Promise.all([get("/v1/collections"), get("/v1/server")]);
  const usable = collections.filter((one) => !one.error);
  if (!usable.length) { show(main, h("h1", {}, "Explore"), h("p", {}, "There is no collection in this folder.")); return () => {}; }
  const chosen = usable.find((one) => one.name === given) || usable[0];
  const view = new Explore(main, chosen, usable, about);
  await view.begin();
  return () => view.stop();
}

class Explore {
  constructor(main, collection, all, about) {
    this.main = main;
    this.name = collection.name;
    this.euclidean = collection.settings.metric === "euclidean";
    this.similarity = collection.settings.similarity;
    this.about = about;
    this.query = null;
    this.seen = null;
    this.running = null;
    this.draw(all);
  }

  draw(all) {
    const kinds = [["item", "an item"], ["vector", "a vector"]];
    if (this.about.encoder === "any") kinds.push(["text", "a text"]);
    if (this.about.encoder) kinds.push(["photo", "a photograph"]);
    this.kind = select(kinds, "item", { id: "kind", onchange: () => this.drawInput() });
    this.input = h("div", { className: "wide" });
    this.where = h("input", { id: "where", placeholder: '{"year": {"$gte": 2020}}', spellcheck: false });
    this.slider = h("input", {
      id: "similarity", type: "range", min: 0.01, max: 1, step: 0.005, value: this.similarity,
      "aria-label": "similarity", oninput: () => this.moved(),
    });
    this.chart = h("div", {});
    this.told = h("p", { id: "told", "aria-live": "polite" });
    this.status = h("p", { id: "status", role: "status", className: "soft" });
    this.cards = h("ul", { id: "results", className: "cards", "aria-label": "Results" });
    this.certificate = h("p", { id: "certificate", className: "certificate soft" }, "An answer brings its certificate.");
    this.whyId = h("input", { id: "why-id", "aria-label": "id of an item" });
    const choice = select(all.map((one) => [one.name, `${one.name} (${count(one.stats.n_items)})`]), this.name, {
      onchange: (event) => { location.hash = `#explore/${encodeURIComponent(event.target.value)}`; },
    });
    const form = h("form", { className: "form", onsubmit: (event) => { event.preventDefault(); this.ask(); } },
      labelled("Collection", choice), labelled("Search with", this.kind), this.input,
      labelled("Filter (optional)", this.where, "wide"), h("button", { className: "main" }, "Search"));
    const why = h("form", { className: "form", onsubmit: (event) => { event.preventDefault(); this.why(typedId(this.whyId.value)); } },
      labelled("Why was this item found, or not?", this.whyId, "wide"), h("button", {}, "Explain"));
    show(this.main, h("h1", {}, "Explore"), h("div", { className: "panel" }, form),
      h("div", { className: "split" },
        h("section", { "aria-label": "Scores", className: "panel threshold" }, this.chart, this.slider, this.told,
          h("div", { className: "legend" }, h("span", { className: "key-match" }, "items above the threshold"),
            h("span", { className: "key-law" }, "expected of unrelated items"), h("span", {}, "heights are logarithmic"))),
        h("section", { "aria-label": "Certificate", className: "panel" }, h("h2", {}, "What is promised"), this.certificate, why)),
      this.status, this.cards);
    this.drawInput();
    this.tell();
    this.searchSoon = debounced(() => this.search(), 150);
  }

  drawInput() {
    const kind = this.kind.value;
    if (kind === "item") this.value = h("input", { id: "query", placeholder: "its id" });
    else if (kind === "vector") this.value = h("textarea", { id: "query", rows: 2, placeholder: "[0.12, -0.3, …]", spellcheck: false });
    else if (kind === "text") this.value = h("input", { id: "query", placeholder: "some words" });
    else this.value = h("input", { id: "query", type: "file", accept: "image/*" });
    const label = labelled({ item: "Item", vector: "Vector, as JSON", text: "Text", photo: "Photograph: choose or drop" }[kind], this.value, "wide");
    if (kind === "photo") this.takeDrops(label);
    show(this.input, label);
  }

  takeDrops(zone) {
    zone.classList.add("drop-zone");
    zone.ondragover = (event) => { event.preventDefault(); zone.classList.add("over"); };
    zone.ondragleave = () => zone.classList.remove("over");
    zone.ondrop = (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      this.value.files = event.dataTransfer.files;
      this.ask();
    };
  }

  async begin() {
    const { items } = await post(at(this.name, "/items/scroll"), { limit: 1, include: [] });
    if (!items.length) { this.status.textContent = "The collection is empty."; return; }
    this.value.value = shownId(items[0].id);
    await this.ask();
  }

  async asked() {
    const text = this.value.value.trim();
    switch (this.kind.value) {
      case "item": return { items: [typedId(text)] };
      case "vector": return { queries: parsed(text, "vector") };
      case "text": return { queries: (await post("/v1/encode", { text })).vector };
      default: {
        const [file] = this.value.files;
        if (!file) throw new Error("Choose a photograph.");
        const headers = { "Content-Type": file.type || "application/octet-stream" };
        return { queries: (await post("/v1/encode", await file.arrayBuffer(), { headers })).vector };
      }
    }
  }

  filter() {
    const text = this.where.value.trim();
    return text ? { where: parsed(text, "filter") } : {};
  }

  async ask() {
    alertUser("");
    // Of two questions, the later one counts, whichever is answered first.
    const mine = (this.asking = Symbol("question"));
    this.stop();
    this.wait("Searching…");
    try {
      const query = await this.asked();
      const seen = await post(at(this.name, "/histogram"), { ...query, ...this.filter(), bins: 100 });
      if (this.asking !== mine) return;
      [this.query, this.seen] = [query, seen];
    } catch (error) {
      if (this.asking !== mine) return;
      this.query = null;
      this.wait("");
      alertUser(error.message);
      return;
    }
    this.tell();
    await this.search();
  }

  // Until the next answer, nothing of the last one is shown as if it were that.
  wait(text) {
    show(this.cards);
    this.status.textContent = text;
    this.certificate.classList.add("soft");
  }

  moved() {
    this.similarity = Number(this.slider.value);
    this.tell();
    if (this.query) this.searchSoon();
  }

  tell() {
    const limit = this.euclidean ? `distance ≤ ${Math.sqrt(2 - 2 * this.similarity).toFixed(3)}` : `similarity ≥ ${this.similarity.toFixed(3)}`;
    this.slider.setAttribute("aria-valuetext", limit);
    if (!this.seen) { this.told.textContent = limit; return; }
    show(this.chart, histogramChart(this.seen, this.similarity));
    if (!hasLaw(this.seen)) {
      this.told.textContent = `${limit}. No segment is sealed yet: what unrelated items score is not known.`;
      return;
    }
    const p = pValue(this.seen, this.similarity);
    this.told.textContent = `${limit}: an unrelated item scores as high with ${pText(this.seen, this.similarity)}; of ${count(this.seen.n_items)} items, `
      + `${about(p * this.seen.n_items)} by chance.`;
  }

  level() {
    if (this.euclidean) return { radius: Math.sqrt(Math.max(0, 2 - 2 * this.similarity)) };
    return { similarity: this.similarity };
  }

  // A new search ends the one before: what is not read is not computed.
  async search() {
    this.stop();
    const control = (this.running = new AbortController());
    this.wait("Searching…");
    let found = 0;
    let drawn = Promise.resolve();
    const begun = performance.now();
    const asked = { ...this.query, ...this.filter(), ...this.level(), p_values: true };
    try {
      const end = await stream(at(this.name, "/range"), asked, (records) => {
        const some = records.slice(0, Math.max(0, MOST_CARDS - found));
        // In their order, however long the metadata of each lot takes.
        if (some.length) drawn = drawn.then(() => this.addCards(some, control));
        found += records.length;
        this.status.textContent = `${count(found)} found so far…`;
      }, control.signal);
      const more = found > MOST_CARDS ? `; the best ${MOST_CARDS} are shown` : "";
      const number = end.n_matches ? count(end.n_matches) : "Nothing";
      this.status.textContent = `${number} found in ${Math.round(performance.now() - begun)} ms${more}.`;
      this.certificate.textContent = end.statement;
      this.certificate.classList.remove("soft");
      await drawn;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.wait("");
      alertUser(error.message);
    }
  }

  async addCards(records, control) {
    const metadata = await readItems(this.name, records.map((one) => one.id));
    if (control.signal.aborted) return;
    this.cards.append(...records.map((one) => itemCard(this.name, one.id, metadata.get(one.id), {
      score: one.score, scale: this.euclidean ? "distance" : "score", p: hasLaw(this.seen) ? one.p_value : undefined, least: this.seen.is_uniform ? 1e-29 : this.seen.smallest * 1.01, photos: this.about.photos,
      buttons: [
        h("button", { type: "button", onclick: () => this.why(one.id) }, "Why?"),
        h("button", { type: "button", onclick: () => this.searchLike(one.id) }, "More like this"),
      ],
    })));
  }

  searchLike(id) {
    this.kind.value = "item";
    this.drawInput();
    this.value.value = shownId(id);
    this.ask();
  }

  async why(id) {
    if (!this.query) { alertUser("Search first."); return; }
    try {
      const told = await post(at(this.name, "/explain"), { ...this.query, ...this.level(), id });
      const { p_value: p, e_value: e, at_most: most } = told.significance;
      await ask(`Item ${id}: ${told.reason}`, h("div", {},
        stagesChart(told),
        h("p", { className: "soft" }, "Dashed: the least that passes. Dot: what this item scored."),
        most && p >= 1 ? null : h("p", {}, `p ${most ? "<" : "="} ${chance(p)}: so often does an unrelated item score as high; ${about(e)} of all by chance.`)),
      [["close", "Close", "main"]]);
    } catch (error) { alertUser(error.message); }
  }

  stop() { this.running?.abort(); }
}
