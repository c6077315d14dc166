// One colour for one meaning: clean and flipped as in the rest of the page, judges at one or not, subsets in turn.

const RAMP = ["#b9a3e3", "#a387d8", "#8d6cc7", "#7653b4", "#5f3d9c"]; // few to many, seen on both pages
const MOST_GROUPS = 6;

// Groups of rows: [{ label, colour, rows }]; the largest is drawn first, so that it hides nothing.
function grouped(pairs, column) {
  const palette = pairs.light.palette;
  const other = palette.series[7];
  if (!column) return [{ label: "pairs", colour: palette.clean, has: () => true }];
  const { values } = column;
  const unknown = { label: "unknown", colour: other, has: (row) => Number.isNaN(values[row]) };
  let groups;
  if (column.isNumber) {
    groups = fifths(column);
  } else if (column.kind === "truth") {
    const [no, yes] = truthLooks(column, palette);
    groups = [no, yes].map((look, code) => ({ ...look, has: (row) => values[row] === code }));
  } else {
    groups = wordGroups(column, palette, other);
  }
  return [...groups, unknown];
}

function truthLooks(column, palette) {
  if (column.key === "flipped") {
    return [{ label: "clean", colour: palette.clean }, { label: "flipped", colour: palette.flipped }];
  }
  const [no, yes] = column.key === "agree" ? ["judges differ", "judges agree"] : ["no", "yes"];
  return [{ label: no, colour: palette.series[3] }, { label: yes, colour: palette.series[5] }];
}

function wordGroups(column, palette, other) {
  const codes = [...column.counts()].filter(([code]) => code >= 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const free = [palette.series[5], palette.series[4], palette.series[2], palette.series[3], palette.series[6]];
  const own = codes.length <= free.length ? codes.length : Math.min(free.length, MOST_GROUPS - 1);
  const named = codes.slice(0, own).map(([code], k) => {
    return { label: column.word(code), colour: free[k], has: (row) => column.values[row] === code };
  });
  const rest = new Set(codes.slice(own).map(([code]) => code));
  if (rest.size) named.push({ label: `${rest.size} others`, colour: other, has: (row) => rest.has(column.values[row]) });
  return named;
}

// A number in five steps with as many pairs each.
function fifths(column) {
  const sorted = [...column.values].filter(Number.isFinite).sort((a, b) => a - b);
  const edges = [...new Set([0, 0.2, 0.4, 0.6, 0.8].map((share) => sorted[Math.floor(share * sorted.length)]))];
  return edges.map((low, k) => {
    const high = edges[k + 1] ?? Infinity;
    const label = k + 1 < edges.length ? `${column.shown(low)} to ${column.shown(high)}` : `from ${column.shown(low)}`;
    const has = (row) => column.values[row] >= low && column.values[row] < high;
    return { label, colour: RAMP[Math.round((k * (RAMP.length - 1)) / Math.max(1, edges.length - 1))], has };
  });
}

// Each group with the rows it has: all of them, and those shown.
function populated(view) {
  const groups = grouped(view.pairs, view.colour).map((group) => ({ ...group, rows: [], shown: 0 }));
  for (let row = 0; row < view.pairs.count; row += 1) {
    const group = groups.find(({ has }) => has(row));
    group.rows.push(row);
    group.shown += view.shown[row];
  }
  return groups.filter(({ rows }) => rows.length);
}
