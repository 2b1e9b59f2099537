// The class picker: type to search, Enter or a tap confirms, Esc leaves. Nothing is chosen before.
import { $, ask, element, percent } from "./dom.js";
import { store } from "./store.js";

const RECENT = 4;
let recent = [], options = [], active = -1;

export function remember(label) {
  recent = [label, ...recent.filter((n) => n !== label)].slice(0, RECENT);
}

// `found` promises pairs [class, probability], best first. The dialog opens at once, so that no key
// typed after C reaches the page; the order changes when they come, unless someone has begun.
export function pick(title, found, tags = {}) {
  const coarse = matchMedia("(pointer: coarse)").matches;
  return ask($("picker"), (finish) => {
    const search = $("picker-search");
    let probable = [];
    $("picker-title").textContent = title;
    search.value = "";
    list("", probable, tags, finish);
    found.then((pairs) => {
      probable = pairs;
      if ($("picker").open && !search.value && active < 0) list("", probable, tags, finish);
    });
    if (coarse) $("picker-close").focus();  // the on-screen keyboard would hide the list
    else search.focus();
    search.oninput = () => list(search.value, probable, tags, finish);
    $("picker-close").onclick = () => finish(null);
    $("picker").onkeydown = (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) move(active < 0 && step < 0 ? options.length - 1 : active + step);
      else if (event.key === "Enter" && event.target === search) {
        if (active >= 0) finish(options[active].label);
      } else return;
      event.preventDefault();
    };
  });
}

function order(probable) {
  const first = [...probable.map(([label]) => label), ...recent];
  return [...new Set([...first, ...store.classes.keys()])];
}

// Exact spelling first, then any case, then a beginning, then anywhere.
function matching(query, labels) {
  if (!query) return labels;
  const low = query.toLowerCase();
  const rank = (label) => {
    const name = store.classes[label], lower = name.toLowerCase();
    return name === query ? 0 : lower === low ? 1 : lower.startsWith(low) ? 2 : lower.includes(low) ? 3 : 4;
  };
  const ranks = new Map(labels.map((label) => [label, rank(label)]));
  return labels.filter((label) => ranks.get(label) < 4).sort((a, b) => ranks.get(a) - ranks.get(b));
}

function list(query, probable, tags, finish) {
  const chances = new Map(probable);
  options = matching(query.trim(), order(probable)).map((label, n) => {
    const said = [tags[label], chances.has(label) ? percent(chances.get(label)) : null,
      recent.includes(label) ? "recent" : null].filter(Boolean).join(", ");
    const node = element("li", { id: `option-${n}`, role: "option", "aria-selected": "false" },
      element("span", { textContent: store.classes[label] }),
      element("span", { className: "soft", textContent: said }));
    node.onclick = () => finish(label);
    return { label, node };
  });
  $("picker-list").replaceChildren(...(options.length ? options.map((o) => o.node)
    : [element("li", { className: "soft", textContent: "No class is called so." })]));
  move(query.trim() ? 0 : -1);
}

function move(position) {
  options[active]?.node.setAttribute("aria-selected", "false");
  active = Math.min(Math.max(position, -1), options.length - 1);
  const node = options[active]?.node;
  node?.setAttribute("aria-selected", "true");
  node?.scrollIntoView({ block: "nearest" });
  $("picker-search").setAttribute("aria-activedescendant", node ? node.id : "");
}
