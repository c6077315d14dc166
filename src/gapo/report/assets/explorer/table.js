// The table: only the rows in sight are in the page. One stop of the tab key; arrows move, Enter opens, m marks.

const ROW = 34; // pixels, as in explorer.css
const BEYOND = 6; // rows above and below those in sight

class PairTable {
  constructor(view, open) {
    this.view = view;
    this.open = open;
    this.rows = new Map(); // by position
    this.name = freshId("row");
    const first = (column) => ["truth", "number", "word"].indexOf(column.kind); // what is known for sure stands first
    this.columns = [...view.pairs.columns].sort((a, b) => first(a) - first(b));
    this.head = make("div", { role: "row", class: "head", "aria-rowindex": 1 });
    this.body = make("div", { role: "rowgroup", class: "rows" });
    this.element = make(
      "div",
      { class: "pairs", role: "grid", tabindex: 0, "aria-label": "Pairs", "aria-describedby": null },
      make("div", { role: "rowgroup", class: "heads" }, this.head),
      this.body,
    );
    this.empty = make("p", { class: "empty", hidden: true }, "No pair is left. Take a filter away, or clear all.");
    this.element.append(this.empty);
    this.headers();
    this.render = oncePerFrame(() => this.renderNow());
    this.element.addEventListener("scroll", this.render, { passive: true });
    new ResizeObserver(this.render).observe(this.element);
    view.on("rows", () => this.rebuild());
    for (const what of ["active", "hover", "marks"]) view.on(what, () => this.dress());
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.rebuild();
  }


  headers() {
    const names = [["id", "Pair", "The id of the pair.", "id"]];
    names.push(...this.columns.map(({ key, title, note, kind }) => [key, title, note, kind]));
    const cells = names.map(([key, title, note, kind], place) => {
      const sort = button(title, () => this.view.sortBy(key), { title: note || null, tabindex: place ? -1 : 0 });
      sort.addEventListener("keydown", (event) => this.alongHead(event, place));
      return make("div", { role: "columnheader", "data-key": key, class: kind, "aria-colindex": place + 2 }, sort);
    });
    const mark = make("div", { role: "columnheader", class: "mark", "aria-colindex": 1 });
    mark.append(make("span", { class: "explorer-hidden" }, "Mark"));
    this.head.replaceChildren(mark, ...cells);
    this.element.setAttribute("aria-colcount", cells.length + 1);
    const width = ({ kind, title }) => {
      if (kind === "word") return "8.5rem";
      return title.length > 13 ? "7rem" : kind === "truth" ? "5.2rem" : "5.8rem";
    };
    this.element.style.setProperty("--columns", `2.4rem var(--id) ${this.columns.map(width).join(" ")}`);
  }

  alongHead(event, place) {
    const buttons = [...this.head.querySelectorAll("button")];
    const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (event.key === "ArrowDown") this.element.focus();
    else if (!buttons[next]) return;
    else {
      buttons[place].tabIndex = -1;
      buttons[next].tabIndex = 0;
      buttons[next].focus();
    }
    event.preventDefault();
    event.stopPropagation();
  }

  rebuild() {
    const { view } = this;
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.body.style.height = `${view.order.length * ROW}px`;
    this.element.setAttribute("aria-rowcount", view.order.length + 1);
    this.empty.hidden = view.order.length > 0;
    for (const cell of this.head.querySelectorAll("[data-key]")) {
      const sorted = view.sort?.key === cell.dataset.key;
      if (sorted) cell.setAttribute("aria-sort", view.sort.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    if (this.sorted !== view.sort) this.element.scrollTop = 0;
    this.sorted = view.sort;
    this.renderNow();
  }

  renderNow() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - BEYOND);
    const last = Math.min(this.view.order.length, Math.ceil((scrollTop + clientHeight) / ROW) + BEYOND);
    for (const [position, row] of this.rows) {
      if (position >= first && position < last) continue;
      row.remove();
      this.rows.delete(position);
    }
    for (let position = first; position < last; position += 1) {
      if (!this.rows.has(position)) this.add(position);
    }
    this.dress();
  }

  add(position) {
    const { view } = this;
    const row = view.order[position];
    const name = view.pairs.name(row);
    const box = make("input", { type: "checkbox", tabindex: -1, "aria-label": `Mark pair ${name.slice(0, 80)}` });
    box.addEventListener("change", () => {
      view.mark([row], box.checked);
      this.element.focus({ preventScroll: true });
    });
    const cells = [
      make("div", { role: "gridcell", class: "mark", "aria-colindex": 1, onclick: (e) => e.stopPropagation() }, box),
      make("div", { role: "gridcell", class: "id", "aria-colindex": 2, title: name.slice(0, 200) }, name.slice(0, 80)),
      ...this.columns.map((column, k) => this.cell(column, row, k + 3)),
    ];
    const line = make("div", { role: "row", class: "row", id: `${this.name}-${position}` }, cells);
    line.setAttribute("aria-rowindex", position + 2);
    line.style.top = `${position * ROW}px`;
    line.addEventListener("click", () => this.open(row));
    line.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && view.point(row));
    line.addEventListener("pointerleave", () => view.point(-1));
    line.pair = row;
    this.rows.set(position, line);
    this.body.append(line);
  }

  cell(column, row, place) {
    const kind = column.kind === "truth" && column.values[row] === 1 ? "truth yes" : column.kind;
    return make("div", { role: "gridcell", class: kind, "aria-colindex": place }, column.text(row));
  }

  // Marks, the row pointed at and the active one, on the rows that are there.
  dress() {
    const { view } = this;
    for (const line of this.rows.values()) {
      const marked = view.marks.rows.has(line.pair);
      line.classList.toggle("hover", line.pair === view.hover);
      line.classList.toggle("marked", marked);
      line.setAttribute("aria-selected", String(line.pair === view.active));
      line.querySelector("input").checked = marked;
    }
    const position = view.active >= 0 ? view.positions[view.active] : -1;
    if (this.rows.has(position)) this.element.setAttribute("aria-activedescendant", `${this.name}-${position}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const { view } = this;
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("button")) return;
    const last = view.order.length - 1;
    const here = view.active >= 0 ? view.positions[view.active] : -1;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const next = {
      ArrowDown: here + 1, ArrowUp: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: last,
    }[event.key];
    if (next !== undefined && last >= 0) this.moveTo(Math.max(0, Math.min(last, next)));
    else if (event.key === "ArrowRight") this.element.scrollLeft += 80;
    else if (event.key === "ArrowLeft") this.element.scrollLeft -= 80;
    else if (event.key === "Enter" && here >= 0) this.open(view.active);
    else if ((event.key === "m" || event.key === " ") && here >= 0) {
      view.mark([view.active], !view.marks.rows.has(view.active));
    } else return;
    event.preventDefault();
  }

  moveTo(position) {
    this.reveal(position);
    this.view.activate(this.view.order[position]);
  }

  reveal(position) {
    const top = position * ROW;
    const sight = this.element.clientHeight - this.head.offsetHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + ROW > this.element.scrollTop + sight) this.element.scrollTop = top + ROW - sight;
    this.renderNow();
  }
}
