// Filters: one for each column that is asked for. A number has a range, a word and a truth are picked.

class Filters {
  constructor(view) {
    this.view = view;
    this.list = make("div", { class: "filters" });
    const { columns } = view.pairs;
    const options = [["", "a column\u2026"], ...columns.map(({ key, title }) => [key, title])];
    this.adder = choice(options, "", (key) => this.add(view.pairs.column(key)));
    this.element = make("div", { class: "filtering" }, labelled("Filter by", this.adder), this.list);
  }

  add(column) {
    this.adder.value = "";
    const there = [...this.list.children].find((part) => part.dataset.key === column.key);
    const part = there || this.part(column);
    if (!there) this.list.append(part);
    part.querySelector("input")?.focus();
  }

  part(column) {
    const inner = column.isNumber ? this.range(column) : this.pick(column);
    const remove = button("\u00d7", () => {
      part.remove();
      this.view.filter(column.key, null);
      this.adder.focus();
    }, { class: "remove", "aria-label": `Remove the filter of ${column.title}` });
    const part = make("fieldset", { "data-key": column.key }, make("legend", {}, column.title), inner, remove);
    return part;
  }

  range(column) {
    const bound = (word, placeholder) => {
      const input = make("input", { type: "text", inputmode: "decimal", "aria-label": `${column.title}, ${word}` });
      input.placeholder = placeholder;
      input.addEventListener("input", afterPause(apply, 150));
      return input;
    };
    const apply = () => {
      const [low, high] = [readNumber(least.value), readNumber(most.value)];
      for (const [input, value] of [[least, low], [most, high]]) {
        input.setAttribute("aria-invalid", String(Number.isNaN(value)));
      }
      if (Number.isNaN(low) || Number.isNaN(high)) return;
      const open = low === null && high === null;
      const test = (value) => (low === null || value >= low) && (high === null || value <= high);
      this.view.filter(column.key, open ? null : test);
    };
    const [low, high] = column.extent || [NaN, NaN];
    const least = bound("at least", plainNumber(low));
    const most = bound("at most", plainNumber(high));
    return make("span", { class: "range" }, least, make("span", { "aria-hidden": "true" }, "to"), most);
  }

  pick(column) {
    const counts = column.counts();
    const codes = [...counts.keys()].sort((a, b) => (column.kind === "truth" ? b - a : counts.get(b) - counts.get(a)));
    const wanted = new Set();
    const test = (value) => wanted.has(Number.isNaN(value) ? -1 : value);
    const box = (code) => {
      const input = make("input", { type: "checkbox" });
      input.addEventListener("change", () => {
        if (input.checked) wanted.add(code);
        else wanted.delete(code);
        this.view.filter(column.key, wanted.size ? test : null);
      });
      const count = make("span", { class: "soft" }, ` ${counts.get(code).toLocaleString("en")}`);
      return make("label", {}, input, column.word(code), count);
    };
    return make("span", { class: "picks" }, codes.map(box));
  }

  clear() {
    this.list.replaceChildren();
  }
}

// What a person types: 0.5, .5, -1e-3, −2 and, where a comma is the point, 0,5. Empty is no bound, other text NaN.
function readNumber(text) {
  const trimmed = text.trim().replace(MINUS, "-").replace(",", ".");
  return trimmed === "" ? null : Number(trimmed);
}
