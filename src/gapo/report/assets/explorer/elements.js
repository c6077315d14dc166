// Elements are made of names and text. Nothing here parses HTML, so text from data cannot become markup.

const SVG = "http://www.w3.org/2000/svg";
let lastId = 0;

function make(name, attributes = {}, ...children) {
  return dressed(document.createElement(name), attributes, children);
}

function makeSvg(name, attributes = {}, ...children) {
  return dressed(document.createElementNS(SVG, name), attributes, children);
}

function dressed(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Ids are for labels only, and unlike those of the page.
function freshId(name) {
  lastId += 1;
  return `explorer-${name}-${lastId}`;
}

// A control with its name in front; the name is what a screen reader says.
function labelled(text, control) {
  control.id ||= freshId("control");
  return make("span", { class: "labelled" }, make("label", { for: control.id }, text), control);
}

function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

// A drop-down list of [value, text]; `onchange` gets the value.
function choice(options, chosen, onchange) {
  const list = make("select", { onchange: () => onchange(list.value) });
  list.append(...options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
  return list;
}

function isTyping(target) {
  return target instanceof Element && target.matches("input:not([type=checkbox], [type=radio]), select, textarea");
}

// At most once per frame, however often it is asked for.
function oncePerFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

function afterPause(work, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}
