// What is looked at: sort, filters, search, selection, marks. Parts of the page change it and listen to it:
// "rows" (which pairs are shown, in which order), "axes", "active", "hover", "marks".

class View {
  constructor(pairs) {
    const { across, up, colours } = pairs.light;
    this.pairs = pairs;
    this.marks = new Marks(pairs);
    this.listeners = new Map();
    this.filters = new Map();
    this.sort = this.firstSort();
    this.query = "";
    this.found = null; // rows whose texts hold the query, once they were searched
    this.region = null; // a polygon in the units of the axes
    this.onlyMarked = false;
    this.across = this.axis(across, 0);
    this.up = this.axis(up, 1);
    this.colours = colours.map((key) => pairs.column(key)).filter(Boolean);
    this.colour = this.colours[0] || null;
    this.active = -1;
    this.hover = -1;
    this.update();
  }

  axis(key, place) {
    const { numbers } = this.pairs;
    return numbers.find((column) => column.key === key) || numbers[place] || numbers[0] || null;
  }

  // The pairs training trusts least come first.
  firstSort() {
    if (this.pairs.column("weight")) return { key: "weight", down: false };
    return this.pairs.column("gap") ? { key: "gap", down: true } : null;
  }

  on(what, listener) {
    this.listeners.set(what, [...(this.listeners.get(what) || []), listener]);
  }

  tell(what) {
    for (const listener of this.listeners.get(what) || []) listener();
  }

  change(values) {
    Object.assign(this, values);
    this.update();
    this.tell("rows");
  }

  sortBy(key) {
    const again = this.sort && this.sort.key === key;
    this.change({ sort: { key, down: again ? !this.sort.down : false } });
  }

  filter(key, test) {
    if (test) this.filters.set(key, test);
    else this.filters.delete(key);
    this.change({});
  }

  setAxes(values) {
    Object.assign(this, values);
    if (this.region && ("across" in values || "up" in values)) this.change({ region: null });
    this.tell("axes");
  }

  mark(rows, on) {
    this.marks.set(rows, on);
    if (this.onlyMarked) this.change({});
    this.tell("marks");
  }

  activate(row) {
    if (row === this.active) return;
    this.active = row;
    this.tell("active");
  }

  point(row) {
    if (row === this.hover) return;
    this.hover = row;
    this.tell("hover");
  }

  get isNarrowed() {
    return Boolean(this.filters.size || this.query || this.region || this.onlyMarked);
  }

  clear() {
    this.filters.clear();
    this.change({ query: "", found: null, region: null, onlyMarked: false });
  }

  update() {
    const { pairs, marks } = this;
    this.shown = new Uint8Array(pairs.count);
    const tests = [...this.filters].map(([key, test]) => [pairs.column(key).values, test]);
    const query = this.query.toLowerCase();
    const inside = this.region && this.across ? polygonTest(this.region) : null;
    const rows = [];
    for (let row = 0; row < pairs.count; row += 1) {
      if (this.onlyMarked && !marks.rows.has(row)) continue;
      if (!tests.every(([values, test]) => test(values[row]))) continue;
      if (query && !this.found?.has(row) && !pairs.name(row).toLowerCase().includes(query)) continue;
      if (inside && !inside(this.across.drawn(row), this.up.drawn(row))) continue;
      this.shown[row] = 1;
      rows.push(row);
    }
    this.order = sortedRows(pairs, rows, this.sort);
    this.positions = new Int32Array(pairs.count).fill(-1);
    this.order.forEach((row, position) => (this.positions[row] = position));
  }
}

// Whether a point lies in a polygon: a ray to the right crosses its sides an odd number of times.
function polygonTest(corners) {
  return (x, y) => {
    let inside = false;
    for (let i = 0, j = corners.length - 1; i < corners.length; j = i, i += 1) {
      const [ax, ay] = corners[i];
      const [bx, by] = corners[j];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
    }
    return inside;
  };
}
