// Marked pairs: kept by the browser where it allows that, and taken out as a list of ids.

class Marks {
  constructor(pairs) {
    this.pairs = pairs;
    this.rows = new Set();
    this.place = `gapo-marks-${pairs.light.store}`;
    this.kept = true;
    this.load();
  }

  load() {
    try {
      const known = new Set(JSON.parse(localStorage.getItem(this.place) || "[]"));
      if (known.size) this.pairs.ids.forEach((id, row) => known.has(id) && this.rows.add(row));
    } catch {
      this.kept = false; // a page opened from disk may be denied it; marks then last as long as the page
    }
  }

  save() {
    try {
      if (this.rows.size) localStorage.setItem(this.place, JSON.stringify(this.ordered().map((r) => this.pairs.ids[r])));
      else localStorage.removeItem(this.place);
    } catch {
      this.kept = false;
    }
  }

  set(rows, on) {
    for (const row of rows) {
      if (on) this.rows.add(row);
      else this.rows.delete(row);
    }
    this.save();
  }

  ordered() {
    return [...this.rows].sort((a, b) => a - b);
  }
}

// One id a line; an id that would not stay on its line is written as JSON.
function asText(pairs, rows) {
  const line = (id) => (/[\r\n]/.test(id) ? JSON.stringify(id) : id);
  return rows.map((row) => `${line(pairs.ids[row])}\n`).join("");
}

// One object a line: the id and what is known of the pair.
function asJsonLines(pairs, rows) {
  const value = (column, row) => {
    if (Number.isNaN(column.values[row])) return null;
    if (column.isNumber) return column.values[row];
    return column.kind === "truth" ? column.values[row] === 1 : column.text(row);
  };
  const line = (row) => {
    const known = pairs.columns.map((column) => [column.key, value(column, row)]);
    return `${JSON.stringify(Object.fromEntries([["id", pairs.ids[row]], ...known]))}\n`;
  };
  return rows.map(line).join("");
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { class: "explorer-hidden", "aria-hidden": "true" });
    area.value = text; // the old way, where the new one is not allowed
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
