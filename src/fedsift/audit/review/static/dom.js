// Small helpers. All text goes in through textContent, never as markup.
export const $ = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const percent = (value) =>
  `${(100 * value).toFixed(value > 0.01 && value < 0.99 ? 0 : 1)} %`;

export function toast(text) {
  $("toast").textContent = text;
  $("toast").classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => $("toast").classList.remove("on"), 4000);
}

// Opens a dialog; resolves to what `finish` is called with, or to null when it is left. Once it is
// left nothing counts: a browser closes a dialog a little later, and keys may come in between.
export function ask(dialog, prepare) {
  return new Promise((resolve) => {
    let settled = false;
    const finish = (value) => {
      if (settled) return;
      settled = true;
      dialog.close();
      resolve(value);
    };
    dialog.oncancel = (event) => { event.preventDefault(); finish(null); };
    dialog.onclose = () => { if (!dialog.open) finish(null); };
    dialog.onclick = (event) => {
      if (event.target === dialog || event.target.closest("[data-close]")) finish(null);
    };
    dialog.showModal();
    prepare(finish);
  });
}

// Fields as rows of a table; `rows` are lists of [name, kind, text], one list per column.
export function fieldTable(columns, heads = [], caption = "") {
  const table = element("table");
  if (caption) table.append(element("caption", { textContent: caption }));
  if (heads.length) {
    table.append(element("thead", {}, element("tr", {}, element("td"),
      ...heads.map((text) => element("th", { scope: "col", textContent: text })))));
  }
  const body = element("tbody");
  columns[0].forEach(([name], n) => body.append(element("tr", {},
    element("th", { scope: "row", textContent: name }),
    ...columns.map((fields) => {
      const [, kind, text] = fields[n] ?? [name, "missing", "–"];
      return element("td", { className: kind, textContent: text });
    }))));
  table.append(body);
  return table;
}
