// Small shapes, so that labels differ by more than their colour.

const turn = (n, begin = -Math.PI / 2) => Array.from({ length: n }, (_, i) => [Math.cos(begin + (2 * Math.PI * i) / n), Math.sin(begin + (2 * Math.PI * i) / n)]);

// Corners of filled shapes, or strokes of open ones, within a circle of radius 1.
export const SHAPES = [
  { round: true },
  { corners: turn(4, Math.PI / 4).map(([x, y]) => [x * 1.2, y * 1.2]) },
  { corners: turn(3).map(([x, y]) => [x * 1.3, y * 1.3]) },
  { corners: turn(4).map(([x, y]) => [x * 1.3, y * 1.3]) },
  { strokes: [[[-1, -1], [1, 1]], [[-1, 1], [1, -1]]] },
  { round: true, hollow: true },
];

export function trace(pen, { round, corners, strokes, hollow }, x, y, size, colour) {
  pen.beginPath();
  pen.fillStyle = pen.strokeStyle = colour;
  pen.lineWidth = size / 2.2;
  if (round) pen.arc(x, y, size * (hollow ? 0.9 : 1), 0, 2 * Math.PI);
  for (const line of corners ? [[...corners, corners[0]]] : strokes ?? []) {
    line.forEach(([dx, dy], i) => (i ? pen.lineTo(x + dx * size, y + dy * size) : pen.moveTo(x + dx * size, y + dy * size)));
  }
  if (strokes || hollow) pen.stroke();
  else pen.fill();
}
