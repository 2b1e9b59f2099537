// The page: `shown` are the samples that pass the filters, `at` is a position among them.
import { $, ask, toast } from "./dom.js";
import { passing } from "./filter.js";
import * as cards from "./grid.js";
import { listen } from "./keys.js";
import { pick, remember } from "./picker.js";
import { drawClassKeys, drawSingle, drawState } from "./single.js";
import { decide, detail, find, isDecided, load, post, store, undo } from "./store.js";
import { fit, step } from "./viewer.js";

let shown = [], at = 0, grid = false, blind = false, digits = false;
const current = () => shown[at];
const targets = () => (grid && cards.picks.size ? [...cards.picks] : [current()].filter(Boolean));
// What a person has not judged yet, in the blind mode, has neither label nor suggestion.
const isHidden = (sample) => blind && !isDecided(sample);

// Deciding

const VERBS = { keep: "Keep the labels of", accept: "Accept the suggestions for",
  unusable: "Set aside as unusable", skip: "Skip" };

async function act(action, label = null) {
  const samples = targets();
  if (!samples.length) return;
  if (["keep", "accept"].includes(action) && samples.some(isHidden)) {
    return toast("Choose a class first: label and suggestion are hidden.");
  }
  if (action === "accept" && samples.every((s) => s.label === s.suggested)) {
    return toast("The suggestion is the label; keep it.");
  }
  const many = samples.length > 1;
  const what = action === "relabel" ? `Set the class ${store.classes[label]} for` : VERBS[action];
  if (many && !(await sure(`${what} ${samples.length} samples?`))) return;
  const comment = many ? null : samples[0].draft;
  const saved = await decide(samples, action, label, comment);
  saved.forEach((s) => { s.draft = null; });
  if (action === "relabel" && saved.length) remember(label);
  if (many) cards.pickNone();
  else if (saved[0] === current()) {
    if (blind && action !== "skip") redraw();
    else forward();
  }
}

function sure(text) {
  return ask($("confirm"), (finish) => {
    $("confirm-text").textContent = text;
    $("confirm-yes").onclick = () => finish(true);
    $("confirm-no").onclick = () => finish(false);
    $("confirm-yes").focus();
  });
}

async function choose() {
  const samples = targets();
  if (!samples.length) return;
  const one = samples.length === 1 ? samples[0] : null, open = one && !isHidden(one);
  const title = one ? "Choose a class" : `Choose a class for ${samples.length} samples`;
  const tags = open ? { [one.suggested]: "suggestion", [one.label]: "label" } : {};
  const probable = open ? detail(one).then((found) => found.probable) : Promise.resolve([]);
  const label = await pick(title, probable, tags);
  if (label !== null) await act("relabel", label);
}

async function goBack() {
  const undone = await undo();
  if (!undone.length) return toast("There is nothing of yours to undo.");
  const position = shown.indexOf(undone[0]);
  if (position >= 0) go(position);
  toast(undone.length === 1 ? `Undone: ${undone[0].id}.` : `Undone: ${undone.length} samples.`);
}

async function saveComment() {
  const sample = current();
  if (!sample || sample.draft === null) return;
  const saved = await decide([sample], "comment", null, sample.draft);
  saved.forEach((s) => { s.draft = null; });
  drawState(sample);
  if (saved.length) toast("Comment saved.");
}

// Moving

function filter() {
  const kept = current();
  shown = passing(store.samples, blind);
  at = Math.max(0, shown.indexOf(kept));
  $("shown").textContent = `${shown.length} of ${store.samples.length} samples`;
  draw();
}

function go(position) {
  if (!shown.length) return;
  at = Math.min(Math.max(position, 0), shown.length - 1);
  if (grid) cards.focusCard(at);
  else redraw();
}

function forward() {
  const left = shown.findIndex((s, n) => n > at && s.state === "none");
  go(left >= 0 ? left : at + 1);
}

function show(asGrid) {
  grid = asGrid;
  $("view-grid").setAttribute("aria-pressed", String(grid));
  $("view-single").setAttribute("aria-pressed", String(!grid));
  draw();
  if (grid && shown.length) cards.focusCard(at);
}

// Drawing

function draw() {
  $("empty").hidden = shown.length > 0;
  $("single").hidden = grid || !shown.length;
  $("grid-view").hidden = !grid;
  drawProgress();
  if (grid) cards.drawGrid(shown, blind);
  else redraw();
}

function redraw() {
  const sample = current();
  drawBar();
  if (grid || !sample) return;
  document.body.classList.toggle("blind", isHidden(sample));
  drawSingle(sample, at, shown.length, isHidden(sample));
  if (shown[at + 1]) {
    detail(shown[at + 1]);
    if (store.images) new Image().src = `/image/${shown[at + 1].index}`;
  }
}

function drawBar() {
  const samples = targets(), one = samples.length === 1 ? samples[0] : null;
  if (grid) document.body.classList.toggle("blind", blind);
  const say = (action, text) => {
    document.querySelector(`[data-action=${action}] .text`).textContent = text;
  };
  say("keep", one ? `Keep ${store.classes[one.label]}` : `Keep ${samples.length}`);
  say("accept", one ? `Accept ${store.classes[one.suggested]}` : `Accept ${samples.length}`);
  document.querySelectorAll("[data-action], #choose").forEach((b) => {
    b.disabled = !samples.length ||
      (b.dataset.action === "accept" && Boolean(one) && one.label === one.suggested);
  });
  $("who").textContent = store.by ? `as ${store.by}` : "Your name";
}

function drawProgress() {
  const queue = store.samples.filter((s) => s.score < 0.5);
  const done = queue.filter(isDecided).length, all = store.samples.filter(isDecided).length;
  const skipped = store.samples.filter((s) => s.state === "skip").length;
  $("progress").value = queue.length ? done / queue.length : 1;
  $("progress-text").textContent = `${done} of ${queue.length} suspicious labels decided` +
    (all > done ? `, ${all - done} others` : "") + (skipped ? `, ${skipped} skipped` : "");
}

function changed(samples) {
  samples.forEach((sample) => {
    drawState(sample);
    cards.drawCardState(sample);
  });
  drawProgress();
}

// Dialogs

async function askName() {
  const name = await ask($("naming"), (finish) => {
    const input = $("naming-name");
    input.value = store.by;
    input.focus();
    input.onkeydown = (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();  // or it would press the button that gets the focus back
      finish(input.value.trim());
    };
    $("naming-save").onclick = () => finish(input.value.trim());
  });
  if (name === null) return;
  sessionStorage.by = store.by = name;
  drawBar();
}

async function save(form) {
  $("exported").textContent = "…";
  const value = await post("/api/export", { form });
  $("exported").textContent = value.error ?? `${value.changed} labels changed, ${value.unusable} ` +
    `unusable, ${value.decided} decided: ${value.path} (use it with ${value.use})`;
}

// Start

const byButton = () => document.activeElement?.matches?.("button, a, summary");
listen({
  decide: act, undo: goBack, choose, saveComment,
  digit: (key) => (digits && Number(key) < store.classes.length ? act("relabel", Number(key)) : false),
  toggle: () => show(!grid),
  leave: () => (grid && cards.picks.size ? cards.pickNone() : show(false)),
  open: () => (byButton() || !grid ? false : show(false)),
  select: (range) => (grid && !byButton() ? cards.toggle(at, range) : false),
  selectAll: () => (grid ? (cards.pickAll(), true) : false),
  move: (by) => go(at + by),
  row: (by) => (grid ? go(at + by * cards.columns()) : false),
  comment: () => (grid ? false : $("comment").focus()),
  search: () => { $("filters").open = true; $("search").focus(); },
  help: () => ask($("help"), () => {}),
  zoom: (by) => (grid || !store.images ? false : by ? step(by) : fit()),
});
document.querySelectorAll("[data-action]").forEach((b) => {
  b.onclick = () => act(b.dataset.action);
});
document.querySelectorAll("[data-form]").forEach((b) => { b.onclick = () => save(b.dataset.form); });
$("choose").onclick = choose;
$("undo").onclick = goBack;
$("previous").onclick = () => go(at - 1);
$("next").onclick = () => go(at + 1);
$("view-single").onclick = () => show(false);
$("view-grid").onclick = () => show(true);
$("who").onclick = askName;
$("help-open").onclick = () => ask($("help"), () => {});
$("export-open").onclick = () => ask($("exports"), () => { $("exported").textContent = ""; });
$("comment-save").onclick = saveComment;
$("comment").oninput = () => {
  const sample = current();
  sample.draft = $("comment").value === sample.comment ? null : $("comment").value;
  $("comment-save").disabled = sample.draft === null;
};
const form = document.querySelector("#filters form");
form.oninput = () => {
  blind = $("blind").checked;
  filter();
};
form.onsubmit = (event) => event.preventDefault();
if (matchMedia("(max-width: 46rem)").matches) $("filters").open = false;

const start = await load(changed);
digits = drawClassKeys((label) => act("relabel", label));
$("blind").checked = blind = start.blind;
cards.startGrid({ open: () => show(false), moved: (n) => { at = n; drawBar(); }, picked: drawBar });
if (start.sample !== null) $("search").value = find(start.sample).id;
filter();
const first = start.sample === null ? shown.findIndex((s) => s.state === "none")
  : shown.indexOf(find(start.sample));
if (first > 0) go(first);
document.body.dataset.ready = "true";
