// Duplicates: start a job, watch it, walk through groups, keep, export, delete.

import { at, blob, get, post } from "./api.js";
import { alertUser, ask, count, counted, h, labelled, select, show } from "./dom.js";
import { itemCard, readItems } from "./items.js";

const GROUPS_A_PAGE = 10;
const SHOWN_OF_A_GROUP = 12;
const DELETED_AT_ONCE = 1000;

export async function duplicatesView(main, given) {
  const [{ collections }, about] = await Promise.all([get("/v1/collections"), get("/v1/server")]);
  const usable = collections.filter((one) => !one.error);
  if (!usable.length) { show(main, h("h1", {}, "Duplicates"), h("p", {}, "There is no collection in this folder.")); return () => {}; }
  const chosen = usable.find((one) => one.name === given) || usable[0];
  const view = new DuplicatesPage(main, chosen, usable, about);
  return () => { view.left = true; };
}

class DuplicatesPage {
  constructor(main, collection, all, about) {
    this.main = main;
    this.collection = collection;
    this.about = about;
    this.left = false;
    this.draw(all);
  }

  draw(all) {
    const euclidean = this.collection.settings.metric === "euclidean";
    this.level = h("input", { id: "level", type: "number", step: "any", value: euclidean ? 0.3 : 0.9, min: 0, max: euclidean ? 1.41 : 1 });
    this.field = euclidean ? "radius" : "similarity";
    this.keep = select([["first", "the first"], ["last", "the last"], ["longest", "the longest metadata"]], "first");
    this.grouping = select([["components", "connected by a chain"], ["star", "similar to the one kept"]], "components");
    this.start = h("button", { className: "main" }, "Find duplicates");
    this.cancel = h("button", { type: "button", hidden: true, onclick: () => post(`/v1/jobs/${this.job}/cancel`) }, "Cancel");
    this.bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Progress of the job" });
    this.status = h("p", { id: "status", role: "status", className: "soft" });
    this.result = h("div", { id: "groups" });
    const choice = select(all.map((one) => [one.name, `${one.name} (${count(one.stats.n_items)})`]), this.collection.name, {
      onchange: (event) => { location.hash = `#duplicates/${encodeURIComponent(event.target.value)}`; },
    });
    const form = h("form", { className: "form", onsubmit: (event) => { event.preventDefault(); this.run(); } },
      labelled("Collection", choice), labelled(euclidean ? "At most this distance" : "At least this similarity", this.level),
      labelled("Keep", this.keep), labelled("A group is", this.grouping), this.start, this.cancel);
    show(this.main, h("h1", {}, "Duplicates"), h("div", { className: "panel" }, form, this.bar), this.status, this.result);
  }

  async run() {
    alertUser("");
    show(this.result);
    this.start.disabled = true;
    try {
      const asked = { kind: "deduplicate", [this.field]: Number(this.level.value), keep: this.keep.value, groups: this.grouping.value };
      this.job = (await post(at(this.collection.name, "/jobs"), asked)).id;
      this.cancel.hidden = this.bar.hidden = false;
      const told = await this.watch();
      if (told?.state === "done") await this.showResult();
      else if (told) this.status.textContent = `The job was ${told.state}. ${told.message}`;
    } catch (error) { alertUser(error.message); }
    this.start.disabled = false;
    this.cancel.hidden = this.bar.hidden = true;
  }

  async watch() {
    while (!this.left) {
      const told = await get(`/v1/jobs/${this.job}`);
      if (told.ended) return told;
      if (told.total) { this.bar.max = told.total; this.bar.value = told.done; } else this.bar.removeAttribute("value");
      this.status.textContent = `${told.state}: ${told.step || "…"} ${told.total ? `${count(told.done)} of ${count(told.total)}` : ""}`;
      await new Promise((resolve) => { setTimeout(resolve, 250); });
    }
    return null;
  }

  async showResult() {
    const found = await get(`/v1/jobs/${this.job}/result`);
    // Which items of a group are kept; the server's choice first.
    this.groups = found.groups.map((group) => ({ ids: [group.kept, ...group.dropped], kept: new Set([group.kept]) }));
    const left = found.expected_missed;
    const missed = left ? `; about ${counted(left, "pair")} may be left` : "";
    const groups = found.groups.length ? counted(found.groups.length, "group") : "No duplicates";
    this.status.textContent = `${groups} in ${counted(found.n_items, "item")}${missed}.`;
    this.page = 0;
    this.remove = h("button", { type: "button", className: "danger", disabled: !this.collection.writable, onclick: () => this.delete() });
    this.list = h("div", {});
    this.turn = h("div", { className: "form" });
    show(this.result, h("p", { className: "certificate" }, found.statement),
      found.groups.length ? h("div", { className: "form" },
        h("button", { type: "button", onclick: () => this.exportChoice() }, "Export CSV"),
        h("button", { type: "button", onclick: () => this.download("parquet") }, "Export Parquet"), this.remove,
        this.collection.writable ? null : h("span", { className: "soft" }, this.collection.note)) : null,
      this.list, this.turn);
    await this.showPage();
  }

  dropped() { return this.groups.flatMap((group) => group.ids.filter((id) => !group.kept.has(id))); }

  async showPage() {
    const from = this.page * GROUPS_A_PAGE;
    const some = this.groups.slice(from, from + GROUPS_A_PAGE);
    const ids = some.flatMap((group) => group.ids.slice(0, SHOWN_OF_A_GROUP));
    const metadata = ids.length ? await readItems(this.collection.name, ids) : new Map();
    show(this.list, some.map((group, number) => this.groupPanel(group, from + number, metadata)));
    const pages = Math.ceil(this.groups.length / GROUPS_A_PAGE);
    const step = (text, to) => h("button", { type: "button", disabled: to < 0 || to >= pages, onclick: () => { this.page = to; this.showPage(); } }, text);
    show(this.turn, pages > 1 ? [step("Previous", this.page - 1), h("span", {}, `page ${this.page + 1} of ${count(pages)}`), step("Next", this.page + 1)] : []);
    this.tellNumber();
  }

  tellNumber() { this.remove.textContent = `Delete ${counted(this.dropped().length, "item")}…`; }

  groupPanel(group, number, metadata) {
    const title = `Group ${count(number + 1)}: ${counted(group.ids.length, "item")}`;
    const cards = h("ul", { className: "cards" }, group.ids.slice(0, SHOWN_OF_A_GROUP).map((id) => this.groupCard(group, id, metadata)));
    const rest = group.ids.length - SHOWN_OF_A_GROUP;
    return h("section", { className: "panel", "aria-label": title }, h("h2", {}, title), cards,
      rest > 0 ? h("p", { className: "soft" }, `… and ${count(rest)} more.`) : null);
  }

  groupCard(group, id, metadata) {
    const box = h("input", { type: "checkbox", checked: group.kept.has(id), "aria-label": `keep ${id}`, onchange: () => {
      if (box.checked) group.kept.add(id); else group.kept.delete(id);
      card.classList.toggle("drop", !box.checked);
      this.tellNumber();
    } });
    const card = itemCard(this.collection.name, id, metadata.get(id), {
      photos: this.about.photos, className: group.kept.has(id) ? "" : "drop", buttons: [h("label", { className: "inline" }, box, "keep")],
    });
    return card;
  }

  exportChoice() {
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    // As the server writes them: no spreadsheet takes an id for a formula.
    const cell = (value) => quoted(typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value));
    const rows = this.groups.flatMap((group, number) => group.ids.map((id) => [number, cell(id), group.kept.has(id)].join(",")));
    save(new Blob([["group,id,keep", ...rows].join("\r\n"), "\r\n"], { type: "text/csv" }), "duplicates.csv");
  }

  async download(format) {
    try { save(await blob(`/v1/jobs/${this.job}/result?format=${format}`), `duplicates.${format}`); }
    catch (error) { alertUser(error.message); }
  }

  async delete() {
    const ids = this.dropped();
    const whole = this.groups.filter((group) => !group.kept.size).length;
    const body = h("div", {}, h("p", {}, `This deletes ${counted(ids.length, "item")} of ${this.collection.name}. It cannot be undone.`),
      whole ? h("p", { className: "bad" }, whole === 1 ? "1 group keeps nothing." : `${count(whole)} groups keep nothing.`) : null);
    const answer = await ask(`Delete ${counted(ids.length, "item")}?`, body,
      [["cancel", "Cancel"], ["delete", `Delete ${counted(ids.length, "item")}`, "danger"]]);
    if (answer !== "delete") return;
    try {
      let gone = 0;
      for (let start = 0; start < ids.length; start += DELETED_AT_ONCE) {
        gone += (await post(at(this.collection.name, "/items/delete"), { ids: ids.slice(start, start + DELETED_AT_ONCE) })).deleted;
      }
      show(this.result);
      this.status.textContent = `Deleted: ${counted(gone, "item")}.`;
    } catch (error) { alertUser(error.message); }
  }
}

function save(content, name) {
  const url = URL.createObjectURL(content);
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
