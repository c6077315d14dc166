// Above the table: how many pairs are shown, what clears the selection, marks and their export.

class Toolbar {
  constructor(view, filters) {
    this.view = view;
    this.filters = filters;
    this.count = make("p", { class: "count", role: "status", "aria-live": "polite" });
    this.clear = button("Clear all", () => this.clearAll(), { class: "quiet", hidden: true });
    this.said = make("span", { class: "said-short", role: "status", "aria-live": "polite" });
    this.element = make("div", { class: "toolbar" }, this.count, this.clear);
    this.export = this.exportPart();
    for (const what of ["rows", "marks"]) view.on(what, () => this.update());
    view.on("axes", () => this.update());
    this.update();
  }

  exportPart() {
    const { view } = this;
    this.which = choice([["marked", ""], ["shown", ""]], "marked", () => this.update());
    this.onlyMarked = make("input", { type: "checkbox" });
    this.onlyMarked.addEventListener("change", () => view.change({ onlyMarked: this.onlyMarked.checked }));
    this.buttons = [
      button("Copy", () => this.copyIds(), { "aria-label": "Copy ids" }),
      button(".txt", () => this.save("txt", asText), { "aria-label": "Save ids as .txt" }),
      button(".jsonl", () => this.save("jsonl", asJsonLines), { "aria-label": "Save as .jsonl" }),
    ];
    this.markShown = button("Mark all shown", () => view.mark(view.order, true), { class: "quiet" });
    this.unmark = button("Remove all marks", () => view.mark([...view.marks.rows], false), { class: "quiet" });
    const only = make("label", { class: "only" }, this.onlyMarked, "Only marked");
    return make("div", { class: "export", role: "group", "aria-label": "Marks and export" },
      only, this.markShown, this.unmark, labelled("Export", this.which), this.buttons, this.said);
  }

  clearAll() {
    this.filters.clear();
    this.view.clear();
    this.onCleared?.();
  }

  chosen() {
    return this.which.value === "marked" ? this.view.marks.ordered() : [...this.view.order];
  }

  async copyIds() {
    const rows = this.chosen();
    const done = await copy(asText(this.view.pairs, rows));
    this.say(done ? `${counted(rows.length, "id")} copied` : "The browser does not allow copying; save a file instead");
  }

  save(ending, write) {
    const rows = this.chosen();
    download(`${this.which.value}-pairs.${ending}`, write(this.view.pairs, rows));
    this.say(`${counted(rows.length, "id")} saved`);
  }

  say(text) {
    this.said.textContent = text;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.said.textContent = ""), 6000);
  }

  update() {
    const { view } = this;
    const all = view.pairs.count;
    const shown = view.order.length;
    const start = view.isNarrowed ? `${shown.toLocaleString("en")} of ${counted(all, "pair")}` : counted(all, "pair");
    this.count.textContent = `${start}${this.rates()}`;
    this.clear.hidden = !view.isNarrowed;
    this.onlyMarked.checked = view.onlyMarked;
    const marked = view.marks.rows.size;
    const [first, second] = this.which.options;
    first.textContent = `marked (${marked.toLocaleString("en")})`;
    second.textContent = `shown (${shown.toLocaleString("en")})`;
    this.unmark.hidden = marked === 0;
    for (const each of this.buttons) each.disabled = this.chosen().length === 0;
  }

  // How often what the colour tells is so among the pairs shown, beside all pairs: the reason for selecting.
  rates() {
    const { view } = this;
    const column = view.pairs.column("flipped") || view.colours.find(({ kind }) => kind === "truth");
    if (!column || column.kind !== "truth" || view.order.length === 0) return "";
    const word = column.key === "flipped" ? "flipped" : column.title.toLowerCase();
    const rate = (rows) => {
      const counts = column.counts(rows);
      const known = (counts.get(0) || 0) + (counts.get(1) || 0);
      return known ? (counts.get(1) || 0) / known : NaN;
    };
    const here = rate(view.order);
    if (Number.isNaN(here)) return "";
    const base = view.isNarrowed ? ` (${percentOf(rate(null))} of all)` : "";
    return `, ${percentOf(here)} ${word}${base}`;
  }
}
