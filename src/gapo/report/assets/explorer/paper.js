// Paper has no scroll bars: what prints is the first rows of the table as it stands.

const PAPER_ROWS = 50;

function onPaper(view, place) {
  const fill = () => place.replaceChildren(...paperParts(view));
  const empty = () => place.replaceChildren();
  window.addEventListener("beforeprint", fill);
  window.addEventListener("afterprint", empty);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? fill() : empty()));
}

function paperParts(view) {
  const rows = [...view.order.slice(0, PAPER_ROWS)];
  const columns = view.pairs.columns.slice(0, 9); // as many as a sheet is wide
  const sorted = view.sort ? `, sorted by ${view.pairs.column(view.sort.key)?.title || "pair"}` : "";
  const caption = `${counted(view.order.length, "pair")} shown${sorted}; the first ${rows.length} are printed.`;
  const head = make("tr", {}, ["Pair", ...columns.map(({ title }) => title)].map((name) => make("th", { scope: "col" }, name)));
  const line = (row) => make("tr", {},
    make("th", { scope: "row" }, `${view.marks.rows.has(row) ? "\u2713 " : ""}${view.pairs.name(row).slice(0, 40)}`),
    columns.map((column) => make("td", {}, column.text(row))));
  return [make("table", { class: "ids" }, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, rows.map(line)))];
}
