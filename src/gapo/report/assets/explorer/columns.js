// What is known of every pair. All kinds are numbers inside: a word is its place in the alphabet, a truth 0 or 1, the
// unknown NaN; so one way of sorting and filtering serves them all.

const TRUTH_WORDS = ["no", "yes"];

class Column {
  constructor(given) {
    this.key = given.key;
    this.title = given.title;
    this.kind = given.kind;
    this.note = given.note;
    this.words = given.kind === "truth" ? TRUTH_WORDS : given.words;
    this.values = Float64Array.from(given.values, (value) => (value === null ? NaN : value));
    this.decimals = given.kind === "number" ? decimalsFor(this.values) : 0;
    this.extent = extent(this.values);
    this.reach = reach(this.values);
  }

  get isNumber() {
    return this.kind === "number";
  }

  // Where a scatter draws a pair: within the reach of its axis.
  drawn(row) {
    const value = this.values[row];
    return Math.min(this.reach[1], Math.max(this.reach[0], value)); // NaN stays NaN
  }

  get isCut() {
    return this.reach[0] > this.extent[0] || this.reach[1] < this.extent[1];
  }

  text(row) {
    const value = this.values[row];
    if (Number.isNaN(value)) return UNKNOWN;
    return this.isNumber ? this.shown(value) : this.words[value];
  }

  shown(value) {
    const text = value.toFixed(this.decimals);
    return withMinus(Number(text) === 0 ? text.replace("-", "") : text);
  }

  // How often each word, and the unknown (-1), occurs.
  counts(rows) {
    const found = new Map();
    const add = (row) => {
      const code = Number.isNaN(this.values[row]) ? -1 : this.values[row];
      found.set(code, (found.get(code) || 0) + 1);
    };
    if (rows) rows.forEach(add);
    else this.values.forEach((_, row) => add(row));
    return found;
  }

  word(code) {
    return code === -1 ? "unknown" : this.words[code];
  }
}

class Pairs {
  constructor(light) {
    this.ids = light.ids;
    this.spelled = new Map(Object.entries(light.spelled).map(([row, text]) => [Number(row), text]));
    this.columns = light.columns.map((column) => new Column(column));
    this.byKey = new Map(this.columns.map((column) => [column.key, column]));
    this.numbers = this.columns.filter((column) => column.isNumber && column.extent);
    this.count = light.ids.length;
    this.light = light;
  }

  column(key) {
    return this.byKey.get(key) || null;
  }

  // An id as it is shown; exports hold the true one.
  name(row) {
    return this.spelled.get(row) ?? this.ids[row];
  }
}

// Rows by a column, unknown values last whichever way; equal rows stay in the order of the data.
function sortedRows(pairs, rows, sort) {
  const ordered = Uint32Array.from(rows);
  if (!sort) return ordered;
  const way = sort.down ? -1 : 1;
  if (sort.key === "id") {
    const names = pairs.ids;
    return ordered.sort((a, b) => (names[a] < names[b] ? -way : names[a] > names[b] ? way : a - b));
  }
  const values = pairs.column(sort.key).values;
  return ordered.sort((a, b) => {
    const left = values[a];
    const right = values[b];
    if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right) || a - b;
    return way * (left - right) || a - b;
  });
}
