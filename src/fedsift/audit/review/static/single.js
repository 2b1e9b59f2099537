// One sample: what it is, what its label says, and sure samples of the suggested class beside it.
import { $, element, fieldTable, percent } from "./dom.js";
import { detail, store } from "./store.js";
import { showPicture } from "./viewer.js";

const MANY_CLASSES = 10;
let now = null;  // the sample that is drawn

export function stateText(sample) {
  const name = store.classes[sample.now];
  const said = { keep: `kept: ${name}`, accept: `now ${name}`, relabel: `now ${name}`,
    unusable: "unusable", skip: "skipped" }[sample.state];
  return said ?? "";
}

export const title = (s) => (s.id === String(s.index) ? `row ${s.index}` : s.id);

export function drawState(sample) {
  if (sample !== now) return;
  const when = sample.time ? new Date(1000 * sample.time).toLocaleString() : "";
  const who = sample.state === "none" ? "" : ` · ${[sample.by, when].filter(Boolean).join(", ")}`;
  $("state").replaceChildren(element("span", { textContent: stateText(sample) }),
    element("small", { className: "soft", textContent: who }));
  $("state").dataset.state = sample.state;
  document.querySelectorAll("#class-keys button").forEach((b) => b.setAttribute(
    "aria-pressed", String(sample.now === Number(b.dataset.label))));
  if (sample.draft === null) $("comment").value = sample.comment;
  $("comment-save").disabled = sample.draft === null;
}

export function drawSingle(s, position, count, hidden) {
  now = s;
  $("position").textContent = `${position + 1} of ${count}` +
    (s.id === String(s.index) ? "" : ` · row ${s.index}`);
  $("name").textContent = title(s);
  $("given").textContent = store.classes[s.label];
  $("suggestion").textContent = store.classes[s.suggested];
  $("hidden-pair").hidden = !hidden;
  for (const key of ["confidence", "score", "weight"]) {
    $(key).textContent = key === "weight" ? s[key].toFixed(2) : percent(s[key]);
    $(`${key}-bar`).value = s[key];
  }
  $("comment").value = s.draft ?? s.comment;
  drawState(s);
  const alt = hidden ? title(s) : `${title(s)}, labelled ${store.classes[s.label]}`;
  if (store.images) showPicture($("sample"), s, alt);
  return drawDetail(s, hidden);
}

async function drawDetail(s, hidden) {
  const found = await detail(s);
  if (s !== now) return;
  if (store.images && found.fields.length) {
    $("sample").append(element("div", { className: "fields about", tabIndex: 0 },
      fieldTable([found.fields])));
  } else if (!store.images) drawFields($("sample"), s, found, hidden);
  drawNeighbours(s, found.neighbours, hidden);
}

const isText = ([, kind]) => kind === "text";

// Long text is read as text; all else is a table of names and values, neighbours beside it.
function drawFields(place, s, found, hidden) {
  const texts = found.fields.filter(isText), rest = found.fields.filter((f) => !isText(f));
  const parts = texts.map(([name, , text]) => element("div", { className: "reading" },
    element("h2", { textContent: name }), element("p", { textContent: text })));
  const beside = !hidden && !texts.length && found.neighbours.length > 0;
  if (beside) {
    const near = found.neighbours;
    parts.push(fieldTable([rest, ...near.map((n) => n.fields)], ["this", ...near.map((n) => n.id)],
      `Beside it: surely ${store.classes[s.suggested]}`));
  } else if (rest.length) parts.push(fieldTable([rest]));
  const box = element("div", { className: beside ? "fields beside" : "fields", tabIndex: 0 }, ...parts);
  place.replaceChildren(box);
}

function drawNeighbours(s, near, hidden) {
  const quotes = near.flatMap((n) => (n.fields ?? []).filter(isText).map((f) => [n, f]));
  $("near").hidden = hidden || !near.length || !(store.images || quotes.length);
  $("near-title").textContent = `Surely ${store.classes[s.suggested]}`;
  const list = $("near-list");
  if (store.images) {
    list.className = "strip";
    list.replaceChildren(...near.map((n) => element("figure", {},
      element("img", { src: `/image/${n.index}?small`, alt: `a sure ${store.classes[s.suggested]}, ${n.id}` }),
      element("figcaption", { className: "soft", textContent: n.id }))));
    return;
  }
  list.className = "quotes";
  list.replaceChildren(...quotes.map(([n, [, , text]]) => element("blockquote", {},
    element("span", { className: "soft", textContent: `${n.id}: ` }), text)));
}

// Up to ten classes have a button and a digit each.
export function drawClassKeys(choose) {
  if (store.classes.length > MANY_CLASSES) {
    $("class-keys").hidden = true;
    $("help-digits").hidden = true;
    return false;
  }
  $("class-keys").replaceChildren(...store.classes.map((name, n) => {
    const key = name === String(n) ? [] : [" ", element("kbd", { textContent: String(n) })];
    const node = element("button", {}, name, ...key);
    node.dataset.label = n;
    node.onclick = () => choose(n);
    return node;
  }));
  return true;
}
