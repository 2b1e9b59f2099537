// State: `samples` (sorted by the server, worst first), `shown` (positions that pass the filters)
// and `at` (a position in `shown`). All text goes in through textContent.
import { listen } from "./keys.js";

const CHUNK = 120;
const $ = (id) => document.getElementById(id);
const tab = sessionStorage.tab ?? (sessionStorage.tab = crypto.randomUUID());
const others = new BroadcastChannel("fedsift-review");
let classes = [], images = false, samples = [], byIndex = new Map();
let shown = [], at = 0, drawn = 0, grid = false;

const stateText = {
  none: () => "", keep: () => "kept", unusable: () => "unusable",
  accept: (s) => `now ${classes[s.now]}`, relabel: (s) => `now ${classes[s.now]}`,
};
const current = () => samples[shown[at]];
const percent = (value) => `${(100 * value).toFixed(value > 0.01 && value < 0.99 ? 0 : 1)} %`;

function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

function toast(text) {
  $("toast").textContent = text;
  $("toast").classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => $("toast").classList.remove("on"), 4000);
}

async function post(path, body) {
  let answer;
  try {
    answer = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  } catch {
    toast("Not saved: the review has been stopped. Start it again and reload.");
    throw new Error("no server");
  }
  return { status: answer.status, value: await answer.json() };
}

// Decisions

function take(decision, announce = true) {
  const sample = byIndex.get(decision.index);
  if (decision.version < sample.version) return;
  Object.assign(sample, { version: decision.version, state: decision.action, now: decision.label });
  drawState(sample);
  drawProgress();
  if (announce) others.postMessage(decision);
}
others.onmessage = (event) => take(event.data, false);

async function decide(action, label = null) {
  const sample = current();
  if (!sample || sample.busy) return;
  sample.busy = true;
  try {
    const { status, value } = await post("/api/decide",
      { index: sample.index, version: sample.version, action, label, tab });
    if (status === 409) {
      take(value.current);
      toast("Decided in another tab meanwhile; check it again.");
    } else if (status !== 200) {
      toast(value.error);
    } else {
      take(value);
      if (sample === current()) forward();
    }
  } finally {
    sample.busy = false;
  }
}

async function undo() {
  const { value } = await post("/api/undo", { tab });
  if (!value) return toast("There is nothing to undo.");
  take(value);
  const sample = byIndex.get(value.index);
  const position = shown.findIndex((n) => samples[n] === sample);
  if (position >= 0) go(position);
  toast(`Undone: sample ${value.index}.`);
}

async function save() {
  const { status, value } = await post("/api/export", {});
  toast(status !== 200 ? value.error : `${value.changed} labels changed, ${value.unusable} ` +
    `unusable, ${value.decided} decided: ${value.path}`);
}

// Moving and filtering

function filter() {
  const [label, suggested] = ["filter-label", "filter-suggested"].map((id) => $(id).value);
  const [low, high] = ["filter-low", "filter-high"].map((id) => Number($(id).value));
  const undecided = $("filter-undecided").checked, kept = current();
  shown = [];
  samples.forEach((s, n) => {
    if (label !== "" && s.label !== Number(label)) return;
    if (suggested !== "" && s.suggested !== Number(suggested)) return;
    if (s.score < low || s.score > high || (undecided && s.state !== "none")) return;
    shown.push(n);
  });
  at = Math.max(0, shown.findIndex((n) => samples[n] === kept));
  $("shown").textContent = `${shown.length} of ${samples.length} samples`;
  draw();
}

function go(position) {
  if (!shown.length) return;
  at = Math.min(Math.max(position, 0), shown.length - 1);
  if (!grid) return drawSingle();
  while (drawn <= at) drawMore();
  $("grid").children[at].focus();
  mark();
}

function forward() {
  const left = shown.findIndex((n, position) => position > at && samples[n].state === "none");
  go(left >= 0 ? left : at + 1);
}

function columns() {
  return getComputedStyle($("grid")).gridTemplateColumns.split(" ").length;
}

function show(asGrid) {
  grid = asGrid;
  $("view-grid").setAttribute("aria-pressed", String(grid));
  $("view-single").setAttribute("aria-pressed", String(!grid));
  draw();
  if (grid && shown.length) go(at);
}

// Drawing

function draw() {
  $("empty").hidden = shown.length > 0;
  $("single").hidden = grid || !shown.length;
  $("grid").hidden = !grid;
  drawProgress();
  $("grid").replaceChildren();
  drawn = 0;
  if (grid) drawMore();
  else drawSingle();
}

function drawProgress() {
  const queue = samples.filter((s) => s.score < 0.5);
  const done = queue.filter((s) => s.state !== "none").length;
  const all = samples.filter((s) => s.state !== "none").length;
  $("progress").value = queue.length ? done / queue.length : 1;
  $("progress-text").textContent = `${done} of ${queue.length} suspicious labels decided` +
    (all > done ? `, ${all - done} others` : "");
}

function drawState(sample) {
  const text = stateText[sample.state](sample);
  if (sample === current()) {
    $("state").textContent = text;
    $("state").dataset.state = sample.state;
  }
  if (sample.card?.isConnected) {
    sample.card.dataset.state = sample.state;
    sample.card.querySelector(".state").textContent = text;
  }
}

function drawSingle() {
  const s = current();
  if (!s) return;
  $("position").textContent = `${at + 1} of ${shown.length}`;
  $("name").textContent = `sample ${s.index}` + (s.id === String(s.index) ? "" : `, id ${s.id}`);
  $("given").textContent = classes[s.label];
  $("suggestion").textContent = classes[s.suggested];
  for (const key of ["confidence", "score", "weight"]) {
    $(key).textContent = key === "weight" ? s[key].toFixed(2) : percent(s[key]);
    $(`${key}-bar`).value = s[key];
  }
  $("choose").value = "";
  drawState(s);
  if (images) drawImage(s);
  else drawFields(s);
}

function drawImage(s) {
  const alt = `sample ${s.index}, labelled ${classes[s.label]}`;
  $("sample").replaceChildren(element("img", { src: `/image/${s.index}`, alt }));
  const following = samples[shown[at + 1]];
  if (following) new Image().src = `/image/${following.index}`;
}

async function drawFields(s) {
  const rows = await (await fetch(`/fields/${s.index}`)).json();
  if (s !== current()) return;
  const body = element("table", {}, ...rows.map(([name, value]) => element("tr", {},
    element("th", { scope: "row", textContent: name }), element("td", { textContent: value }))));
  $("sample").replaceChildren(element("div", { className: "fields", tabIndex: 0 }, body));
}

function drawMore() {
  const part = shown.slice(drawn, drawn + CHUNK).map((n, k) => card(samples[n], drawn + k));
  drawn += part.length;
  $("grid").append(...part);
  mark();
  return part.length;
}

function card(s, position) {
  const text = `${classes[s.label]} → ${classes[s.suggested]}`;
  s.card = element("button", { className: "card", tabIndex: -1 });
  s.card.dataset.index = s.index;
  s.card.setAttribute("aria-label", `sample ${s.index}, labelled ${classes[s.label]}, ` +
    `suggested ${classes[s.suggested]} with ${percent(s.confidence)}`);
  if (images) s.card.append(element("img", {
    loading: "lazy", decoding: "async", alt: "", width: 128, height: 128, src: `/image/${s.index}` }));
  s.card.append(element("span", { className: "pair", textContent: text }),
    element("span", { className: "soft", textContent: `score ${percent(s.score)}` }),
    element("span", { className: "state" }));
  s.card.onfocus = () => { at = position; mark(); };
  s.card.ondblclick = () => show(false);
  s.card.dataset.state = s.state;
  s.card.querySelector(".state").textContent = stateText[s.state](s);
  return s.card;
}

function mark() { // one card is in the order of Tab, the arrows move between cards
  document.querySelector(".card[tabindex='0']")?.setAttribute("tabindex", "-1");
  $("grid").children[at]?.setAttribute("tabindex", "0");
}

// Start

const byButton = () => document.activeElement?.matches?.("button:not(.card), a");
listen({
  decide, undo, choose: () => (grid ? show(false) : null, $("choose").focus()),
  digit: (n) => (n < classes.length ? decide("relabel", n) : false),
  toggle: () => show(!grid), single: () => show(false),
  open: () => (byButton() ? false : grid ? show(false) : false),
  move: (step) => go(at + step),
  row: (step) => (grid ? go(at + step * columns()) : false),
});
document.querySelectorAll("[data-action]").forEach((b) => {
  b.onclick = () => decide(b.dataset.action);
});
$("choose").onchange = () => {
  const value = $("choose").value;
  $("choose").blur();
  if (value !== "") decide("relabel", Number(value));
};
$("undo").onclick = undo;
$("export").onclick = save;
$("previous").onclick = () => go(at - 1);
$("next").onclick = () => go(at + 1);
$("view-single").onclick = () => show(false);
$("view-grid").onclick = () => show(true);
document.querySelector(".filters").oninput = filter;
document.querySelector(".filters").onsubmit = (event) => event.preventDefault();
new IntersectionObserver((seen) => {
  if (grid && seen.some((s) => s.isIntersecting)) drawMore();
}, { rootMargin: "600px" }).observe($("more"));

const loaded = await (await fetch("/api/samples")).json();
({ classes, images } = loaded);
const columnsOf = Object.entries(loaded.samples);
samples = loaded.samples.index.map((_, n) => ({
  ...Object.fromEntries(columnsOf.map(([name, values]) => [name, values[n]])),
  version: 0, state: "none", now: null,
}));
byIndex = new Map(samples.map((s) => [s.index, s]));
loaded.decisions.forEach((d) => take(d, false));
filter();
const first = shown.findIndex((n) => samples[n].state === "none");
if (first > 0) go(first);
document.body.dataset.ready = "true";
