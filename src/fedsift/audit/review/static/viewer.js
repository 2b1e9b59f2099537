// A picture in its own size, with zoom, and with window and level on its own values.
import { element } from "./dom.js";

const ARRAYS = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array };
const STEPS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32];
let stage, drawn, zoomText, sliders, values = null;
let zoom = null;      // factor of the picture's own pixels; null: fitted
let windowed = null;  // { level, width } in the picture's own values; null: as it is drawn

export function showPicture(figure, sample, alt) {
  zoom = null;
  values = null;
  stage = element("div", { className: "stage", tabIndex: 0, "aria-label": "The picture; + and - zoom" });
  zoomText = element("span", { className: "soft" });
  const tools = element("div", { className: "tools" }, button("−", "Zoom out", () => step(-1)),
    button("+", "Zoom in", () => step(1)), button("Fit", "Fit the picture", fit),
    button("1:1", "Own size", () => setZoom(1)), zoomText, windowTools(sample));
  figure.replaceChildren(stage, tools);
  stage.ondblclick = () => (zoom === null ? setZoom(Math.max(1, 2 * scale())) : fit());
  stage.onpointerdown = pan;
  const picture = element("img", { src: `/image/${sample.index}`, alt });
  place(picture);
  if (windowed) drawValues(sample);
}

export function step(direction) {
  if (!stage?.isConnected || !drawn) return false;
  const now = scale();
  const next = direction > 0 ? STEPS.find((s) => s > now * 1.01)
    : STEPS.findLast((s) => s < now * 0.99);
  setZoom(next ?? now);
  return true;
}

export function fit() {
  zoom = null;
  layout();
}

const button = (text, label, run) =>
  element("button", { type: "button", textContent: text, "aria-label": label, onclick: run });

const own = () => [drawn.naturalWidth ?? drawn.width, drawn.naturalHeight ?? drawn.height];

function scale() {
  const [width, height] = own();
  return zoom ?? Math.min(stage.clientWidth / width, stage.clientHeight / height);
}

function place(node) {
  drawn = node;
  stage.replaceChildren(node);
  if (node.tagName === "IMG" && !node.complete) node.onload = layout;
  else layout();
}

function setZoom(factor) {
  zoom = factor;
  layout();
}

function layout() {
  const [width, height] = own();
  if (!width) return;
  drawn.style.width = zoom ? `${width * zoom}px` : "100%";
  drawn.style.height = zoom ? `${height * zoom}px` : "100%";
  stage.classList.toggle("zoomed", zoom !== null);
  drawn.classList.toggle("pixels", scale() >= 1.5);
  zoomText.textContent = `${width} × ${height}, ${Math.round(100 * scale())} %`;
}

function pan(event) {
  if (event.pointerType !== "mouse" || zoom === null) return;
  const [x, y, left, top] = [event.clientX, event.clientY, stage.scrollLeft, stage.scrollTop];
  stage.setPointerCapture(event.pointerId);
  stage.onpointermove = (moved) => {
    stage.scrollLeft = left - (moved.clientX - x);
    stage.scrollTop = top - (moved.clientY - y);
  };
  stage.onpointerup = () => { stage.onpointermove = null; };
}

// Window and level

function windowTools(sample) {
  const slider = (name) => {
    const input = element("input", { type: "range", min: 0, max: 1000, value: 500 });
    return [input, element("label", {}, `${name} `, input)];
  };
  const [level, levelLabel] = slider("Level"), [width, widthLabel] = slider("Window");
  width.value = 1000;
  sliders = { level, width };
  const box = element("details", { className: "window", open: windowed !== null },
    element("summary", { textContent: "Window and level" }), levelLabel, widthLabel,
    button("Reset", "Reset window and level", () => {
      windowed = null;
      [level.value, width.value] = [500, 1000];
      place(element("img", { src: `/image/${sample.index}`, alt: drawn.ariaLabel ?? drawn.alt }));
    }));
  level.oninput = width.oninput = async () => {
    if (!(await read(sample))) return;
    const span = values.high - values.low;
    windowed = { level: values.low + span * level.value / 1000,
      width: Math.max(span * width.value / 1000, span / 1000) };
    draw();
  };
  return box;
}

async function read(sample) {
  if (values?.index === sample.index) return true;
  const answer = await fetch(`/pixels/${sample.index}`);
  if (!answer.ok) return false;
  const about = (name) => answer.headers.get(`X-${name}`);
  const numbers = new ARRAYS[about("Type")](await answer.arrayBuffer());
  let [low, high] = about("Type") === "uint8" ? [0, 255] : [Infinity, -Infinity];
  if (high < low) for (const v of numbers) { if (v < low) low = v; if (v > high) high = v; }
  values = { index: sample.index, numbers, low, high, width: Number(about("Width")),
    height: Number(about("Height")), channels: Number(about("Channels")) };
  return true;
}

async function drawValues(sample) {
  if (!(await read(sample))) return;
  const span = values.high - values.low || 1;
  sliders.level.value = 1000 * (windowed.level - values.low) / span;
  sliders.width.value = 1000 * windowed.width / span;
  draw();
}

function draw() {
  const { numbers, width, height, channels } = values;
  const low = windowed.level - windowed.width / 2, gain = 255 / windowed.width;
  const canvas = drawn.tagName === "CANVAS" ? drawn
    : element("canvas", { width, height, role: "img", "aria-label": drawn.alt });
  const image = new ImageData(width, height), out = image.data;  // it rounds and clamps
  for (let p = 0, n = 0; p < out.length; p += 4) {
    for (let c = 0; c < 3; c += 1) out[p + c] = gain * (numbers[n + (channels === 1 ? 0 : c)] - low);
    out[p + 3] = 255;
    n += channels;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  if (canvas !== drawn) place(canvas);
}
