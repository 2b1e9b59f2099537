// Many samples as cards, drawn as one scrolls; some of them can be selected and decided together.
import { $, element, percent } from "./dom.js";
import { stateText, title } from "./single.js";
import { store } from "./store.js";

const CHUNK = 120, LINES = 4, CHARACTERS = 160;
export const picks = new Set();
let shown = [], drawn = 0, hidden = false, from = 0, open = () => {}, moved = () => {}, picked = () => {};

export function startGrid(handlers) {
  ({ open, moved, picked } = handlers);
  new IntersectionObserver((seen) => {
    if (!$("grid-view").hidden && seen.some((s) => s.isIntersecting)) drawMore();
  }, { rootMargin: "600px" }).observe($("more"));
  $("pick-all").onclick = pickAll;
  $("pick-none").onclick = () => pickNone();
}

export function drawGrid(samples, blind) {
  [shown, hidden, drawn] = [samples, blind, 0];
  $("grid").replaceChildren();
  const left = new Set(shown);
  picks.forEach((sample) => { if (!left.has(sample)) picks.delete(sample); });
  drawMore();
  drawPicks();
}

export function focusCard(position) {
  while (drawn <= position && drawMore());
  $("grid").children[position]?.focus();
}

export function drawCardState(sample) {
  const card = sample.card;
  if (!card?.isConnected) return;
  card.dataset.state = sample.state;
  card.querySelector(".state").textContent = stateText(sample) + (sample.comment ? " ✎" : "");
  const chosen = picks.has(sample);
  card.classList.toggle("picked", chosen);
  card.querySelector("input").checked = chosen;
}

export const columns = () => getComputedStyle($("grid")).gridTemplateColumns.split(" ").length;

export function toggle(position, range = false) {
  const [first, last] = range ? [Math.min(from, position), Math.max(from, position)]
    : [position, position];
  const on = range || !picks.has(shown[position]);
  shown.slice(first, last + 1).forEach((s) => (on ? picks.add(s) : picks.delete(s)));
  from = position;
  drawPicks();
}

export function pickAll() {
  shown.forEach((sample) => picks.add(sample));
  drawPicks();
}

export function pickNone() {
  picks.clear();
  drawPicks();
}

function drawPicks() {
  $("picked").textContent = picks.size ? `${picks.size} selected` : "";
  $("pick-none").disabled = !picks.size;
  for (const card of $("grid").children) drawCardState(shown[card.position]);
  picked();
}

function drawMore() {
  const part = shown.slice(drawn, drawn + CHUNK).map((s, n) => card(s, drawn + n));
  const samples = shown.slice(drawn, drawn + CHUNK);
  drawn += part.length;
  $("grid").append(...part);
  if (part.length && !store.images) fill(samples);
  return part.length;
}

async function fill(samples) {
  const at = samples.map((s) => s.index).join(",");
  const found = await (await fetch(`/api/cards?at=${at}`)).json();
  samples.forEach((s) => {
    const fields = found[s.index] ?? [], text = fields.find(([, kind]) => kind === "text");
    const lines = text ? [element("p", { textContent: text[2].slice(0, CHARACTERS) })]
      : fields.slice(0, LINES).map(([name, , value]) => element("p", {},
        element("span", { className: "soft", textContent: `${name} ` }), value));
    s.card.querySelector(".content").replaceChildren(...lines);
  });
}

function card(s, position) {
  const said = hidden ? "" : `${store.classes[s.label]} → ${store.classes[s.suggested]}`;
  const box = element("input", { type: "checkbox", tabIndex: -1, "aria-label": `select ${title(s)}` });
  const opener = element("button", { className: "open", tabIndex: -1, textContent: "⤢",
    "aria-label": `open ${title(s)}` });
  const content = store.images ? element("img", { loading: "lazy", decoding: "async", alt: "",
    width: 128, height: 128, src: `/image/${s.index}?small` })
    : element("div", { className: "content" });
  s.card = element("div", { className: "card", tabIndex: -1, role: "listitem" },
    element("div", { className: "top" }, box, element("span", { className: "id", textContent: title(s) }), opener),
    content, element("span", { className: "pair", textContent: said }),
    element("span", { className: "soft", textContent: hidden ? "" : `score ${percent(s.score)}` }),
    element("span", { className: "state" }));
  s.card.position = position;
  s.card.dataset.index = s.index;
  s.card.setAttribute("aria-label", hidden ? title(s) : `${title(s)}, labelled ` +
    `${store.classes[s.label]}, suggested ${store.classes[s.suggested]} with ${percent(s.confidence)}`);
  s.card.onfocus = () => { mark(s.card); moved(position); };
  s.card.onclick = (event) => {
    if (event.target === opener) { moved(position); open(); } else toggle(position, event.shiftKey);
  };
  s.card.ondblclick = () => { moved(position); open(); };
  drawCardState(s);
  if (position === 0) s.card.tabIndex = 0;
  return s.card;
}

function mark(card) { // one card is in the order of Tab, the arrows move between cards
  document.querySelector(".card[tabindex='0']")?.setAttribute("tabindex", "-1");
  card.setAttribute("tabindex", "0");
}
