// Numbers as people read them: a true minus, thousands apart, no more digits than they carry.

const MINUS = "\u2212";
const UNKNOWN = "\u2013";
const NARROW = "\u00a0";

function counted(count, thing) {
  return `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
}

function percentOf(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}${NARROW}%`;
}

function withMinus(text) {
  return text.replace("-", MINUS);
}

// To four significant places, as in the rest of the page.
function plainNumber(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return withMinus(String(value));
  return withMinus(String(Number(value.toPrecision(4))));
}

// So many decimals for a whole column that most of its numbers can be told apart, and their points stand in a line.
function decimalsFor(values) {
  const sorted = values.filter(Number.isFinite).sort();
  if (sorted.every(Number.isInteger)) return 0;
  const at = (share) => sorted[Math.floor(share * (sorted.length - 1))];
  const usual = at(0.9) - at(0.1) || Math.abs(at(0.5)) || 1;
  return Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(usual))));
}

function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

// How far an axis reaches: a few values far out would press all others into a spot, so it ends at the outermost half
// percent where that makes much of a difference. What lies beyond is drawn at the edge.
function reach(values) {
  const whole = extent(values);
  const sorted = values.filter(Number.isFinite).sort();
  if (sorted.length < 200) return whole;
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  const middle = [at(0.005), at(0.995)];
  return whole[1] - whole[0] > 1.5 * (middle[1] - middle[0]) && middle[1] > middle[0] ? middle : whole;
}

// Round numbers from `low` to `high`, about so many of them.
function ticks(low, high, about) {
  const rough = (high - low) / about;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    found.push(Number((k * step).toPrecision(12)));
  }
  return found;
}

// Shares of the known values that are less, and more.
function standing(values, value) {
  let less = 0;
  let more = 0;
  let known = 0;
  for (const other of values) {
    if (Number.isNaN(other)) continue;
    known += 1;
    if (other < value) less += 1;
    else if (other > value) more += 1;
  }
  return known ? { less: less / known, more: more / known, known } : { less: 0, more: 0, known };
}
