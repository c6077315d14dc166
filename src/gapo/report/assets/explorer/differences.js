// Which words of two texts differ: the longest common sequence of words, within a bound so that no text can hang the page.

const MOST_CELLS = 4e6; // of the table: 2,000 words against 2,000

function wordsOf(text) {
  return text.match(/\s+|[\p{L}\p{N}\p{M}_]+|[^\s\p{L}\p{N}\p{M}_]/gu) || [];
}

// Both texts as runs [{ text, same }], and whether the ends were left unmarked because they are too long.
function differences(left, right) {
  const a = wordsOf(left);
  const b = wordsOf(right);
  const start = commonStart(a, b);
  const end = commonEnd(a, b, start);
  const inner = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const bound = Math.floor(Math.sqrt(MOST_CELLS));
  const fits = inner[0].length * inner[1].length <= MOST_CELLS;
  const cut = fits ? inner : inner.map((words) => words.slice(0, bound));
  const [sameA, sameB] = commonWords(...cut);
  const runs = (words, same, k) => {
    const rest = same.length < inner[k].length;
    const known = words.map((_, i) => {
      if (i < start || i >= words.length - end) return true;
      return i - start < same.length ? Boolean(same[i - start]) : null; // null: not compared
    });
    return { runs: joined(words, withoutIslands(words, known)), rest };
  };
  const [one, two] = [runs(a, sameA, 0), runs(b, sameB, 1)];
  return { left: one.runs, right: two.runs, cut: one.rest || two.rest };
}

function commonStart(a, b) {
  let k = 0;
  while (k < a.length && k < b.length && a[k] === b[k]) k += 1;
  return k;
}

function commonEnd(a, b, start) {
  let k = 0;
  while (k < a.length - start && k < b.length - start && a[a.length - 1 - k] === b[b.length - 1 - k]) k += 1;
  return k;
}

function commonWords(a, b) {
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width); // of what is left from (i, j) on
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      longest[at] = a[i] === b[j] ? longest[at + width + 1] + 1 : Math.max(longest[at + width], longest[at + 1]);
    }
  }
  const sameA = new Uint8Array(a.length);
  const sameB = new Uint8Array(b.length);
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) sameA[i++] = sameB[j++] = 1;
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i += 1;
    else j += 1;
  }
  return [sameA, sameB];
}

// A space is marked between two changed words, and only there: a mark reads as one stretch.
function withoutIslands(words, same) {
  return same.map((is, i) => (/^\s+$/.test(words[i]) ? same[i - 1] !== false || same[i + 1] !== false : is));
}

function joined(words, same) {
  const runs = [];
  words.forEach((word, i) => {
    const last = runs[runs.length - 1];
    if (last && last.same === (same[i] !== false)) last.text += word;
    else runs.push({ text: word, same: same[i] !== false });
  });
  return runs;
}
