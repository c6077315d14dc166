// One pair, opened: why it weighs what it weighs, its texts, its terms among all pairs, its history.

const NARROW_SCREEN = "(max-width: 52rem)";

class Panel {
  constructor(view, blocks) {
    this.view = view;
    this.blocks = blocks;
    this.turn = 0;
    this.title = make("h2", { tabindex: -1, id: freshId("title") });
    this.place = make("span", { class: "soft" });
    this.marker = button("Mark", () => this.toggleMark(), { "aria-keyshortcuts": "m", "aria-pressed": "false" });
    this.back = button("\u2190", () => this.step(-1), { "aria-label": "Previous pair", title: "Previous (left arrow)" });
    this.next = button("\u2192", () => this.step(1), { "aria-label": "Next pair", title: "Next (right arrow)" });
    const close = button("Close", () => this.close(), { class: "close", "aria-keyshortcuts": "Escape" });
    const head = make("header", {}, make("div", {}, this.title, this.place), this.marker, this.back, this.next, close);
    this.content = make("div", { class: "content" });
    this.element = make("dialog", { class: "pair", "aria-labelledby": this.title.id }, head, this.content);
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    for (const what of ["active", "rows"]) view.on(what, () => this.element.open && this.show(view.active));
    view.on("marks", () => this.dressMark());
  }

  open(row) {
    if (!this.element.open) {
      this.before = document.activeElement;
      if (matchMedia(NARROW_SCREEN).matches) this.element.showModal();
      else this.element.show();
    }
    this.view.activate(row);
    this.show(row);
    this.title.focus({ preventScroll: true });
  }

  close() {
    this.turn += 1;
    this.element.close();
    if (this.before?.isConnected && this.before !== document.body) this.before.focus({ preventScroll: true });
    else this.onClosed?.();
  }

  step(by) {
    const { view } = this;
    const position = view.positions[view.active];
    const next = view.order[position < 0 ? 0 : position + by];
    if (next !== undefined) this.onStep(view.positions[next]);
  }

  toggleMark() {
    const { view } = this;
    view.mark([view.active], !view.marks.rows.has(view.active));
  }

  dressMark() {
    const marked = this.view.marks.rows.has(this.view.active);
    this.marker.setAttribute("aria-pressed", String(marked));
    this.marker.textContent = marked ? "Marked \u2713" : "Mark";
  }

  key(event) {
    if (isTyping(event.target) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") this.close();
    else if (event.key === "m") this.toggleMark();
    else if (event.key === "ArrowRight" || event.key === "j") this.step(1);
    else if (event.key === "ArrowLeft" || event.key === "k") this.step(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  async show(row) {
    const { view } = this;
    const position = view.positions[row];
    this.title.textContent = view.pairs.name(row).slice(0, 200);
    this.place.textContent = position < 0
      ? "not among the pairs shown"
      : `${(position + 1).toLocaleString("en")} of ${counted(view.order.length, "pair")} shown`;
    this.back.disabled = position === 0;
    this.next.disabled = position === view.order.length - 1;
    this.dressMark();
    if (this.shown === row && this.content.childElementCount) return;
    this.shown = row;
    this.turn += 1;
    const turn = this.turn;
    try {
      const pair = await this.blocks.pair(row);
      if (turn === this.turn) this.fill(row, pair);
    } catch {
      if (turn === this.turn) this.fill(row, { text: null, history: null, words: "", broken: true });
    }
  }

  fill(row, pair) {
    const { pairs } = this.view;
    const value = (key) => (pairs.column(key) && !Number.isNaN(pairs.column(key).values[row]) ? pairs.column(key).text(row) : null);
    const titleOf = (key) => pairs.column(key)?.title || key;
    this.content.replaceChildren(
      ...[
        this.badges(row),
        pair.words ? make("p", { class: "why" }, pair.words) : null,
        pair.broken ? make("p", { class: "soft" }, "The texts of this pair cannot be read from the page.") : null,
        ...(pair.text ? textParts(pair.text, value) : []),
        !pair.text && pairs.light.texts ? make("p", { class: "soft" }, "The texts of this pair are not known.") : null,
        ...this.terms(row),
        ...(pair.history ? historyParts(pair.history, titleOf) : []),
      ].filter(Boolean),
    );
    this.content.scrollTop = 0;
  }

  badges(row) {
    const columns = this.view.pairs.columns.filter((column) => !column.isNumber && !Number.isNaN(column.values[row]));
    const badge = (column) => {
      const look = grouped(this.view.pairs, column).find(({ has }) => has(row));
      const dot = make("span", { class: "dot" });
      dot.style.backgroundColor = look.colour;
      const text = column.kind === "word" ? `${column.title}: ${column.text(row)}` : look.label;
      const said = column.kind === "truth" && ["no", "yes"].includes(text) ? `${column.title}: ${text}` : text;
      return make("li", {}, dot, said);
    };
    return columns.length ? make("ul", { class: "key badges" }, columns.map(badge)) : null;
  }

  // Every number with its standing: a bar from the least to the most of all pairs.
  terms(row) {
    const columns = this.view.pairs.numbers.filter((column) => !Number.isNaN(column.values[row]));
    if (!columns.length) return [];
    const line = (column) => {
      const { less, more, known } = standing(column.values, column.values[row]);
      const bar = make("span", { class: "standing", "aria-hidden": "true" }, make("i"));
      bar.firstChild.style.left = `${50 * (1 + less - more)}%`;
      return make("tr", {},
        make("th", { scope: "row", title: column.note || null }, column.title),
        make("td", {}, column.text(row)),
        make("td", {}, bar),
        make("td", { class: "soft" }, standingWords(less, more, known)));
    };
    const head = ["Term", "Value", "From least to most of all pairs", "Among all pairs"];
    const names = make("tr", {}, head.map((name) => make("th", { scope: "col" }, name)));
    const table = make("table", { class: "terms" }, make("thead", {}, names), make("tbody", {}, columns.map(line)));
    return [make("h3", {}, "Its terms among all pairs"), make("div", { class: "terms-box" }, table)];
  }
}

function standingWords(less, more, known) {
  if (known < 2 || less + more === 0) return "like all others";
  if (less > 0 && more === 0 && Math.round(less * known) === known - 1) return "the most of all";
  if (more > 0 && less === 0 && Math.round(more * known) === known - 1) return "the least of all";
  const share = (of) => `${Math.floor(100 * of + 1e-9)}${NARROW}%`;
  return more > less ? `less than ${share(more)}` : `more than ${share(less)}`;
}
