// Codes as strips of small squares; bits that differ are round and of another colour.

import { html, svg } from "./elements.js";

const SIDE = 10;
const PITCH = 12;
const narrow = matchMedia("(max-width: 560px)");

// Codes are hexadecimal digits: bit i is bit i % 8 of byte i // 8.
export function bitsOf(code, nBits) {
  return Array.from({ length: nBits }, (_, i) => (parseInt(code.substr((i >> 3) * 2, 2), 16) >> (i & 7)) & 1);
}

export function differing(bits, others) {
  return bits.reduce((sum, bit, i) => sum + (bit !== others[i]), 0);
}

export function strip(bits, others, label, aLine = narrow.matches ? 16 : 32) {
  const columns = Math.min(bits.length, aLine);
  const lines = Math.ceil(bits.length / aLine);
  const shapes = bits.map((bit, i) => {
    const [x, y] = [(i % aLine) * PITCH + 1, Math.floor(i / aLine) * PITCH + 1];
    const names = `bit${bit ? " one" : ""}`;
    if (others && others[i] !== bit) {
      return svg("circle", { cx: x + SIDE / 2, cy: y + SIDE / 2, r: SIDE / 2 - 0.5, class: `${names} other` });
    }
    return svg("rect", { x: x + 0.5, y: y + 0.5, width: SIDE - 1, height: SIDE - 1, rx: 2, class: names });
  });
  const box = svg("svg", { viewBox: `0 0 ${columns * PITCH} ${lines * PITCH}`, role: "img", "aria-label": label }, ...shapes);
  box.style.maxWidth = `${columns * PITCH * 1.2}px`; // few bits are no larger than many
  return html("div", { class: "strip" }, box);
}
