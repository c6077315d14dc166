// Puts the parts together, for each explorer of the page.

async function start(root) {
  const light = (await unpacked(root.querySelector(".explorer-light"))).value;
  const pairs = new Pairs(light);
  const view = new View(pairs);
  const blocks = new Blocks([...root.querySelectorAll(".explorer-block")], light.starts);
  const panel = new Panel(view, blocks);
  const table = new PairTable(view, (row) => panel.open(row));
  const filters = new Filters(view);
  const search = new Search(view, blocks);
  const toolbar = new Toolbar(view, filters);
  const paper = make("div", { class: "paper" });
  toolbar.onCleared = () => search.clear();
  panel.onClosed = () => table.element.focus({ preventScroll: true });
  panel.onStep = (position) => table.moveTo(position);

  const tools = make("div", { class: "tools", role: "search" }, search.element, filters.element);
  const right = make("div", { class: "listing" }, toolbar.element, table.element, toolbar.export, hint());
  const parts = make("div", { class: "parts" }, right);
  if (view.across) parts.prepend(new Scatter(view, (row) => panel.open(row)).element);
  else parts.classList.add("alone");
  const whole = make("div", { class: "live" }, tools, parts, paper, panel.element);
  root.querySelector(".explorer-plain").replaceWith(whole);
  table.render();
  onPaper(view, paper);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    search.input.focus();
  });
  search.input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") table.element.focus({ preventScroll: true });
  });
  root.dataset.ready = "yes";
}

function hint() {
  const key = (name) => make("kbd", {}, name);
  return make("p", { class: "soft keys" },
    key("\u2191"), key("\u2193"), " move, ", key("Enter"), " opens, ", key("m"), " marks, ", key("/"), " searches, ",
    key("Esc"), " closes.");
}

for (const root of document.querySelectorAll(".explorer")) {
  start(root).catch((problem) => {
    const said = "These pairs cannot be unpacked here; a browser of 2023 or later can. What follows are the most important.";
    root.querySelector(".explorer-plain p")?.replaceChildren(said);
    console.error(problem);
  });
}
