// A prompt and two responses beside each other, differences marked; a very long text is cut until it is asked for.

const FIRST_CHARACTERS = 6000;

function textParts(text, column) {
  const { prompt, chosen, rejected } = text;
  const found = differences(firstPart(chosen), firstPart(rejected));
  const tokens = (name) => column(`${name}_tokens`);
  const sides = [
    side("Chosen", "chosen", chosen, found.left, tokens("chosen")),
    side("Rejected", "rejected", rejected, found.right, tokens("rejected")),
  ];
  const cut = found.cut || chosen.length > FIRST_CHARACTERS || rejected.length > FIRST_CHARACTERS;
  const note = cut ? make("p", { class: "soft" }, "Differences are marked only in the first part of these long texts.") : null;
  return [
    make("h3", {}, "Prompt"),
    passage("prompt-text", prompt, [{ text: firstPart(prompt), same: true }]),
    make("div", { class: "sides" }, sides),
    note,
  ];
}

function firstPart(text) {
  if (text.length <= FIRST_CHARACTERS) return text;
  const half = /[\ud800-\udbff]$/; // never half of a letter
  return text.slice(0, FIRST_CHARACTERS).replace(half, "");
}

function side(title, kind, text, runs, tokens) {
  const count = tokens ? make("span", { class: "soft" }, ` ${tokens} tokens`) : null;
  return make("section", { class: `side ${kind}` }, make("h3", {}, title, count), passage(kind, text, runs));
}

function passage(kind, text, runs) {
  const shown = runs.map(({ text: part, same }) => (same ? part : make("mark", { class: `only-${kind}` }, part)));
  const body = make("div", { class: "words-of", dir: "auto", tabindex: 0, role: "region" }, text ? shown : "(nothing)");
  body.setAttribute("aria-label", `Text: ${kind === "prompt-text" ? "prompt" : kind}`);
  if (text.length <= FIRST_CHARACTERS) return body;
  const more = button(`Show all ${text.length.toLocaleString("en")} characters`, () => {
    body.append(text.slice(firstPart(text).length));
    body.classList.add("whole");
    body.focus();
    more.remove();
  }, { class: "quiet" });
  return make("div", {}, body, more);
}
