// Texts, history and words of the pairs lie in the page as gzipped blocks, and are opened when they are needed.

const KEEP_CHARACTERS = 3e7; // opened blocks up to this size stay open

async function unpacked(element) {
  const letters = atob(element.textContent.trim());
  const bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k += 1) bytes[k] = letters.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const text = await new Response(stream).text();
  return { value: JSON.parse(text), size: text.length };
}

class Blocks {
  constructor(elements, starts) {
    this.elements = elements;
    this.starts = starts;
    this.open = new Map(); // from the one unused longest to the one used last
    this.size = 0;
  }

  async block(place) {
    let found = this.open.get(place);
    if (found) {
      this.open.delete(place);
    } else {
      found = await unpacked(this.elements[place]);
      if (this.open.has(place)) return this.open.get(place).value;
      this.size += found.size;
    }
    this.open.set(place, found);
    for (const [oldest, { size }] of this.open) {
      if (this.size <= KEEP_CHARACTERS || oldest === place) break;
      this.open.delete(oldest);
      this.size -= size;
    }
    return found.value;
  }

  placeOf(row) {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.starts[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // Everything about one pair: { text: {prompt, chosen, rejected} | null, history | null, words }.
  async pair(row) {
    const place = this.placeOf(row);
    const block = await this.block(place);
    const k = row - this.starts[place];
    const text = block.texts[k];
    return {
      text: text ? { prompt: text[0], chosen: text[1], rejected: text[2] } : null,
      history: block.history[k] || null,
      words: block.words[k] || "",
    };
  }
}
