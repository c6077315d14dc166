// Search: ids at once, texts block by block, with a note of how far it is. A newer search ends an older one.

const SHORTEST = 2; // characters worth opening all texts for

class Search {
  constructor(view, blocks) {
    this.view = view;
    this.blocks = blocks;
    this.hasTexts = view.pairs.light.texts;
    this.turn = 0;
    const what = this.hasTexts ? "ids and texts" : "ids";
    this.input = make("input", { type: "search", placeholder: `Search ${what}`, autocomplete: "off", spellcheck: "false" });
    this.input.setAttribute("aria-label", `Search ${what}`);
    this.input.setAttribute("aria-keyshortcuts", "/");
    this.note = make("span", { class: "soft searching", role: "status", "aria-live": "polite" });
    this.element = make("div", { class: "search" }, this.input, this.note);
    this.input.addEventListener("input", afterPause(() => this.run(this.input.value.trim()), 180));
  }

  clear() {
    this.turn += 1;
    this.input.value = "";
    this.note.textContent = "";
  }

  async run(query) {
    this.turn += 1;
    const turn = this.turn;
    this.note.textContent = "";
    this.view.change({ query, found: null });
    if (!this.hasTexts || query.length < SHORTEST) return;
    const found = new Set();
    const { starts } = this.blocks;
    for (let place = 0; place < starts.length; place += 1) {
      const block = await this.blocks.block(place);
      if (turn !== this.turn) return;
      holding(block.texts, query.toLowerCase(), (k) => found.add(starts[place] + k));
      if (place % 8 === 7) {
        this.note.textContent = `Reading texts: ${percentOf((place + 1) / starts.length)}`;
        await new Promise((resume) => setTimeout(resume)); // the page stays awake
        if (turn !== this.turn) return;
      }
    }
    this.note.textContent = "";
    this.view.change({ found });
  }
}

function holding(texts, query, tell) {
  texts.forEach((text, k) => {
    if (text?.some((part) => part.toLowerCase().includes(query))) tell(k);
  });
}
