// A drawing area: strokes become an image with the size, position and stroke width of the data set.

import { html } from "./elements.js";

const INK = 18;
const SIDE = 264;

// A drawing area with a button that clears it, for the demo. onDrawn gets { vector, item }: a query, and an item to show for it.
export function makeSketch(app, onDrawn) {
  const canvas = html("canvas", { class: "sketch", width: SIDE, height: SIDE, role: "img", "aria-label": "Drawing area for pointer or touch. With the keyboard, pick a stored item instead." });
  const sketch = new Sketch(canvas, app.demo.shape, (vector) => {
    const payload = { title: "your drawing", image: sketch.picture(vector) };
    onDrawn({ vector, item: { id: "your drawing", labels: null, payload } });
  });
  const clear = html("button", { type: "button", class: "quiet" }, "Clear the drawing");
  clear.addEventListener("click", () => sketch.clear());
  return html("div", { class: "sketch-box" }, canvas, clear);
}

export class Sketch {
  constructor(canvas, [height, width], onDrawn) {
    this.canvas = canvas;
    this.shape = { height, width };
    this.onDrawn = onDrawn;
    this.strokes = [];
    this.active = false;
    this.paint();
    canvas.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      canvas.setPointerCapture(event.pointerId);
      this.active = true;
      this.strokes.push([this.place(event)]);
      this.paint();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.active) return;
      for (const one of event.getCoalescedEvents?.() ?? [event]) this.strokes.at(-1).push(this.place(one));
      this.paint();
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(kind, () => {
        if (!this.active) return;
        this.active = false;
        this.onDrawn(this.vector());
      });
    }
  }

  clear() {
    this.strokes = [];
    this.paint();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.canvas.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  paint() {
    const { canvas } = this;
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#0b0d12";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    trace(pen, this.strokes, INK, ([x, y]) => [x, y]);
    if (!this.strokes.length) {
      pen.fillStyle = "#8b95a5";
      pen.font = "16px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.fillText("draw here", canvas.width / 2, canvas.height / 2 + 5);
    }
  }

  // Small images fill their frame; larger ones leave a margin of a seventh, as MNIST does.
  vector() {
    const { height, width } = this.shape;
    const small = height <= 8;
    const fine = 8; // subpixels per pixel
    const thick = small ? 1.75 : 2.4;
    const margin = (small ? 0 : height / 7) + thick / 2;
    const points = this.strokes.flat();
    const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const scale = (Math.min(height, width) - 2 * margin) / Math.max(right - left, bottom - top, 1);
    const canvas = Object.assign(document.createElement("canvas"), { width: width * fine, height: height * fine });
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    trace(pen, this.strokes, thick * fine, ([x, y]) => [
      (width / 2 + (x - (left + right) / 2) * scale) * fine,
      (height / 2 + (y - (top + bottom) / 2) * scale) * fine,
    ]);
    const ink = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    const vector = new Array(height * width).fill(0);
    for (let y = 0; y < canvas.height; y++) {
      for (let x = 0; x < canvas.width; x++) {
        const cell = Math.floor(y / fine) * width + Math.floor(x / fine);
        vector[cell] += ink[(y * canvas.width + x) * 4 + 3] / (255 * fine * fine);
      }
    }
    return vector.map((value) => Math.min(1, value));
  }

  // The query, as an image.
  picture(vector) {
    const { height, width } = this.shape;
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(width, height);
    vector.forEach((value, i) => image.data.set([value * 255, value * 255, value * 255, 255], i * 4));
    pen.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }
}

function trace(pen, strokes, thick, to) {
  pen.strokeStyle = pen.fillStyle = "#fff";
  pen.lineWidth = thick;
  pen.lineCap = pen.lineJoin = "round";
  for (const stroke of strokes) {
    pen.beginPath();
    stroke.map(to).forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    if (stroke.length === 1) pen.lineTo(...to(stroke[0]));
    pen.stroke();
  }
}
