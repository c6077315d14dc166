// The scatter: draw around points to select them, point at one to find its row, click it to open its pair.

const NEAR = 9; // pixels
const CLICK = 4; // pixels a hand may shake

class Scatter {
  constructor(view, open) {
    this.view = view;
    this.open = open;
    this.shape = "rectangle";
    this.drag = null;
    this.canvas = make("canvas", { class: "points", role: "img" });
    this.over = make("canvas", { class: "over", "aria-hidden": "true" });
    this.tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.legend = make("ul", { class: "key", "aria-label": "Colours" });
    this.plot = new Plot(view, this.canvas);
    this.stage = make("div", { class: "stage" }, this.canvas, this.over, this.tip);
    this.element = make("div", { class: "scatter" }, this.controls(), this.stage, this.colours(), this.hands());
    this.draw = oncePerFrame(() => this.drawNow());
    this.highlight = oncePerFrame(() => this.highlightNow());
    for (const what of ["rows", "axes"]) view.on(what, this.draw);
    for (const what of ["hover", "active", "marks"]) view.on(what, this.highlight);
    new ResizeObserver(this.draw).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.draw);
    this.listen();
  }

  controls() {
    const { view } = this;
    const numbers = view.pairs.numbers.map(({ key, title }) => [key, title]);
    const axis = (name) => choice(numbers, view[name].key, (key) => view.setAxes({ [name]: view.pairs.column(key) }));
    return make("div", { class: "controls" }, labelled("Up", axis("up")), labelled("Across", axis("across")));
  }

  hands() {
    const shapes = [["rectangle", "rectangle"], ["lasso", "line by hand"]];
    const shape = choice(shapes, this.shape, (chosen) => (this.shape = chosen));
    this.beyond = make("span", { hidden: true }, " Pairs at the edge lie beyond it.");
    const words = [labelled("Drag to select by a", shape), " Click a point to open its pair.", this.beyond];
    return make("div", { class: "hands soft" }, words);
  }

  colours() {
    const { view } = this;
    const colours = view.colours.map(({ key, title }) => [key, title]);
    const change = (key) => view.setAxes({ colour: view.pairs.column(key) });
    const chosen = colours.length ? labelled("Colour", choice(colours, view.colour.key, change)) : null;
    return make("div", { class: "colours" }, chosen, this.legend);
  }

  drawNow() {
    this.plot.draw();
    if (this.plot.width < 1) return;
    this.canvas.setAttribute("aria-label", this.words());
    this.beyond.hidden = !this.view.across.isCut && !this.view.up.isCut;
    this.legend.replaceChildren(...this.plot.groups.map((group) => this.entry(group)));
    this.highlightNow();
  }

  entry({ label, colour, rows, shown }) {
    const chip = make("span", { class: "dot" });
    chip.style.backgroundColor = colour;
    const all = rows.length.toLocaleString("en");
    const count = this.view.isNarrowed ? `${shown.toLocaleString("en")} of ${all}` : all;
    return make("li", {}, chip, label, make("span", { class: "soft" }, ` ${count}`));
  }

  words() {
    const { across, up, order } = this.view;
    const reach = (column) => `${column.title} from ${column.extent.map(plainNumber).join(" to ")}`;
    const groups = this.plot.groups.map(({ label, shown }) => `${label} ${shown}`).join(", ");
    const colours = this.view.colour ? ` Shown by colour: ${groups}.` : "";
    return `Scatter of ${counted(order.length, "pair")}: ${reach(across)}, ${reach(up)}.${colours} ` +
      "The table holds the same pairs; filters select ranges by keyboard.";
  }

  // Marks, the row pointed at, the open pair and the selection, above the points.
  highlightNow() {
    const { over, view, plot } = this;
    over.width = plot.canvas.width;
    over.height = plot.canvas.height;
    const pen = over.getContext("2d");
    pen.setTransform(plot.pen.getTransform());
    const ring = (row, radius, width) => {
      const [x, y] = plot.place(row);
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.lineWidth = width;
      pen.stroke();
    };
    pen.strokeStyle = plot.ink.text;
    for (const row of view.marks.rows) if (view.shown[row]) ring(row, plot.radius + 1.5, 1.2);
    if (view.active >= 0) ring(view.active, plot.radius + 4, 2.5);
    if (view.hover >= 0) ring(view.hover, plot.radius + 4, 1.5);
    this.outline(pen);
    this.explain();
  }

  outline(pen) {
    const { plot } = this;
    const corners = this.drag?.moved
      ? this.drag.corners()
      : this.view.region?.map(([x, y]) => [plot.x.to(x), plot.y.to(y)]);
    if (!corners) return;
    pen.beginPath();
    corners.forEach(([x, y]) => pen.lineTo(x, y));
    pen.closePath();
    pen.globalAlpha = 0.07;
    pen.fillStyle = plot.ink.text;
    pen.fill();
    pen.globalAlpha = 0.8;
    pen.setLineDash([4, 3]);
    pen.lineWidth = 1;
    pen.stroke();
  }

  explain() {
    const { tip, view, plot } = this;
    const row = view.hover;
    tip.hidden = row < 0 || Boolean(this.drag?.moved);
    if (tip.hidden) return;
    const told = (column) => make("div", {}, `${column.title} ${column.text(row)}`);
    tip.replaceChildren(make("b", {}, view.pairs.name(row).slice(0, 60)), told(view.across), told(view.up));
    const [x, y] = plot.place(row);
    const left = x > plot.width / 2;
    tip.style.left = left ? "auto" : `${x + 12}px`;
    tip.style.right = left ? `${plot.width - x + 12}px` : "auto";
    tip.style.top = `${Math.max(0, Math.min(y - 30, plot.height - 80))}px`;
  }

  listen() {
    const at = (event) => {
      const box = this.over.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.over.setPointerCapture(event.pointerId);
      this.drag = new Drag(this.shape, at(event));
    });
    this.over.addEventListener("pointermove", (event) => {
      this.drag?.to(at(event));
      if (this.drag?.moved) this.view.point(-1);
      else if (event.pointerType === "mouse") this.view.point(this.plot.nearest(...at(event), NEAR));
      if (this.drag) this.highlight();
    });
    this.over.addEventListener("pointerup", (event) => this.release(at(event)));
    this.over.addEventListener("pointerleave", () => this.view.point(-1));
    this.over.addEventListener("pointercancel", () => {
      this.drag = null; // the finger scrolls the page
      this.highlight();
    });
  }

  release(point) {
    const { drag, plot, view } = this;
    this.drag = null;
    if (!drag) return;
    if (drag.moved) {
      view.change({ region: drag.corners().map(([x, y]) => [plot.x.back(x), plot.y.back(y)]) });
      return;
    }
    const row = plot.nearest(...point, NEAR);
    if (row >= 0) this.open(row);
    else if (view.region) view.change({ region: null });
  }
}

// What a hand draws on the canvas.
class Drag {
  constructor(shape, start) {
    this.shape = shape;
    this.path = [start];
    this.moved = false;
  }

  to(point) {
    const [x, y] = this.path[0];
    const last = this.path[this.path.length - 1];
    this.moved ||= Math.hypot(point[0] - x, point[1] - y) > CLICK;
    if (this.shape === "rectangle") this.path[1] = point;
    else if (Math.hypot(point[0] - last[0], point[1] - last[1]) > CLICK) this.path.push(point);
  }

  corners() {
    if (this.shape === "lasso") return this.path;
    const [[x, y], [toX, toY]] = this.path;
    return [[x, y], [toX, y], [toX, toY], [x, toY]];
  }
}
