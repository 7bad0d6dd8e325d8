// Draws a figure (see figure.py) into an element: panels, charts, and a slider through the frames.

const W = 460, H = 360, PAD = { left: 58, right: 14, top: 10, bottom: 40 };
const CHART = { w: 380, h: 150, left: 58, right: 14, top: 12, bottom: 30 };
const LOOKS = { // role: [kind of sign in the legend, its path]
  best: "M-6,0L0,-7L6,0L0,7Z", minimiser: "M-5,-5L5,5M-5,5L5,-5", query: "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0",
  prox: "M-4.5,-4.5H4.5V4.5H-4.5Z", level: "M-4.5,-4.5H4.5V4.5H-4.5Z", vertex: "M0,-6L5.5,4H-5.5Z",
  first: "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0", second: "M-4.5,-4.5H4.5V4.5H-4.5Z", third: "M0,-6L5.5,4H-5.5Z",
  on: "M-8,0a8,8 0 1,0 16,0a8,8 0 1,0 -16,0", off: "M-8,0a8,8 0 1,0 16,0a8,8 0 1,0 -16,0",
  fractional: "M0,-7L2,-2L7,0L2,2L0,7L-2,2L-7,0L-2,-2Z",
};
const LIGHT = "--ink:#1a1a1a; --paper:#fff; --soft:#6b6b6b; --rule:#d9d9d9; --shade:#8883; --blue:#0072b2; --red:#d55e00; --green:#00795a; --purple:#a8548a; --sky:#56b4e9; --orange:#b37400;";
const DARK = "--ink:#ececec; --paper:#16181c; --soft:#a3a3a3; --rule:#3b3e44; --shade:#9993; --blue:#56b4e9; --red:#ff8c3a; --green:#35c79d; --purple:#e29bc6; --sky:#2f7fae; --orange:#e6b34a;"; // of the reader's system, or of the page or notebook around
const STYLE = `
.cx { ${LIGHT} color:var(--ink); background:var(--paper); font:14px/1.4 system-ui,sans-serif;
  padding:12px; box-sizing:border-box; max-width:1180px; margin:auto; outline-offset:-2px; }
@media (prefers-color-scheme:dark) { .cx { ${DARK} } }
[data-theme=light] .cx,[data-jp-theme-light=true] .cx { ${LIGHT} } [data-theme=dark] .cx,[data-jp-theme-light=false] .cx { ${DARK} }
@media print { .cx { --ink:#000; --paper:#fff; --soft:#444; --rule:#ccc; --blue:#0072b2; --red:#d55e00; --green:#00795a; --purple:#a8548a; }
  .cx .cx-bar { display:none; } }
.cx h2 { font-size:1.05em; margin:0 0 2px; font-weight:600; } .cx h3 { font-size:.95em; margin:0; font-weight:600; overflow-wrap:anywhere; }
.cx-row { display:flex; flex-wrap:wrap; gap:4px 16px; } .cx-row>* { flex:1 1 280px; min-width:0; } .cx-grid { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(280px,100%),1fr)); gap:4px 16px; } .cx figure { margin:0; max-width:640px; min-width:0; } .cx-main { flex-basis:370px; max-width:640px; } .cx-side { display:flex; flex-direction:column; gap:8px; }
.cx svg { display:block; width:100%; height:auto; touch-action:pan-y; } .cx-said { color:var(--soft); font-variant-numeric:tabular-nums; min-height:1.4em; margin:0; }
.cx-bar { display:flex; flex-wrap:wrap; gap:8px; align-items:center; margin:8px 0; } .cx-bar input { flex:1 1 110px; min-width:60px; accent-color:var(--blue); }
.cx-bar button { font:inherit; color:var(--ink); background:var(--paper); border:1px solid var(--soft); border-radius:5px; padding:4px 12px; min-height:34px; cursor:pointer; }
.cx-bar button:hover { border-color:var(--blue); } .cx :focus-visible,.cx:focus-visible { outline:3px solid var(--blue); }
.cx-bar output { white-space:nowrap; min-width:6.5em; text-align:right; font-variant-numeric:tabular-nums; }
.cx-legend { display:flex; flex-wrap:wrap; gap:2px 14px; list-style:none; margin:4px 0; padding:0; font-size:.88em; }
.cx-legend li { display:flex; gap:5px; align-items:center; } .cx-legend svg { width:30px; height:16px; flex:none; }
.cx text { fill:var(--ink); font-size:12px; } .cx .tick { fill:var(--soft); font-size:11px; } .cx .axis { stroke:var(--soft); fill:none; } .cx .rule { stroke:var(--rule); fill:none; }
.cx .s { fill:none; stroke:var(--ink); stroke-width:1.5; stroke-linejoin:round; stroke-linecap:round; }
.cx .halo { stroke:var(--paper); stroke-width:3.5; paint-order:stroke; stroke-linejoin:round; }
.cx .objective { stroke-width:2.2; } .cx .contour { stroke:var(--soft); stroke-width:1; opacity:.75; }
.cx .cuts { stroke:var(--sky); stroke-width:1; opacity:.6; } .cx .newest { stroke:var(--red); stroke-width:2; } .cx .model { stroke:var(--blue); stroke-width:2; stroke-dasharray:7 4; stroke-linecap:butt; }
.cx .cells { stroke:var(--blue); stroke-width:1; opacity:.55; stroke-dasharray:2 3; } .cx .stabilised { stroke:var(--green); stroke-width:1.8; stroke-dasharray:9 3 2 3; stroke-linecap:butt; }
.cx .lower { stroke:var(--blue); stroke-dasharray:12 4; stroke-linecap:butt; } .cx .upper { stroke:var(--red); stroke-dasharray:12 4 2 4; stroke-linecap:butt; }
.cx .gap,.cx .first { stroke:var(--ink); }
.cx .half { stroke:var(--purple); stroke-width:1.4; } .cx .cutoff { fill:var(--purple); opacity:.13; stroke:none; } .cx .outside { fill:var(--shade); stroke:var(--soft); stroke-width:1.2; fill-rule:evenodd; }
.cx .band { fill:var(--purple); opacity:.18; stroke:none; } .cx .level { stroke:var(--purple); } .cx .prox { stroke:var(--green); stroke-dasharray:9 3 2 3; } .cx .search { stroke:var(--orange); stroke-width:3; }
.cx .vertex,.cx .mark { stroke:var(--purple); stroke-width:1.8; } .cx .path { stroke:var(--ink); stroke-width:1.2; } .cx .bars { fill:var(--orange); opacity:.85; stroke:var(--paper); stroke-width:.6; } .cx .old { fill:var(--soft); }
.cx .best { fill:var(--ink); stroke:var(--paper); stroke-width:1.2; } .cx .minimiser { stroke:var(--red); stroke-width:2.4; } .cx .dot.prox { fill:var(--green); stroke:var(--paper); stroke-dasharray:none; } .cx .dot.level { fill:var(--purple); stroke:var(--paper); }
.cx .dot.first { fill:var(--blue); stroke:none; } .cx .second { stroke:var(--red); stroke-dasharray:7 3; } .cx .dot.second { fill:var(--red); stroke:none; } .cx .third { stroke:var(--green); stroke-dasharray:2 3; } .cx .dot.third { fill:var(--green); stroke:none; }
.cx .fractional { fill:var(--red); stroke:var(--paper); stroke-width:1; } .cx .area { fill:var(--sky); fill-opacity:.3; stroke:var(--blue); } .cx .strong { stroke:var(--ink); stroke-width:3; } .cx .faint { stroke:var(--rule); stroke-width:1.2; } .cx .wrong { stroke:var(--red); stroke-width:4; }
.cx .on { fill:var(--orange); stroke:var(--ink); stroke-width:1; } .cx .off { fill:var(--paper); stroke:var(--ink); stroke-width:1; } .cx .cursor { stroke:var(--ink); stroke-width:1.5; } .cx .now { fill:var(--ink); stroke:var(--paper); }`;

const HUES = ["ink", "orange", "green", "purple", "blue", "red"]; // of gaps; bounds keep the colour of their side
const placed = ({ role, place }) => place ? `style="stroke-dasharray:12 3${" 2 3".repeat(place + 1)};stroke-linecap:butt${role === "gap" ? `;stroke:var(--${HUES[place % HUES.length]})` : ""}"` : ""; // dots count the methods; an upper bound has one already

const number = (v) => v === null || v === undefined ? "none yet" : String(Number(v.toPrecision(7)));
const escape = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const short = (v) => Math.abs(v) >= 1e5 || (v && Math.abs(v) < 1e-3) ? v.toExponential(0) : String(Number(v.toPrecision(6)));
const cut1 = (v) => Math.round(v * 10) / 10;
const make = (tag, attributes = {}, ...inside) => {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  node.append(...inside);
  return node;
};

function ticks(low, high, most = 6) {
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((f) => f * power >= raw), found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// Geometry

function clipped(polygon, a, b, c) { // the part where a x + b y + c >= 0
  const found = [], n = polygon.length;
  for (let i = 0; i < n; i++) {
    const p = polygon[i], q = polygon[(i + 1) % n], u = a * p[0] + b * p[1] + c, v = a * q[0] + b * q[1] + c;
    if (u >= 0) found.push(p);
    if ((u < 0) !== (v < 0)) { const t = u / (u - v); found.push([p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])]); }
  }
  return found;
}

function contour(values, n, level, sx, sy) { // marching squares, joined into lines; x runs slowest
  const next = new Map(), place = new Map(), corners = [[0, 0], [1, 0], [1, 1], [0, 1]];
  const link = (a, b) => next.has(a) ? next.get(a).push(b) : next.set(a, [b]);
  for (let i = 0; i + 1 < n; i++) for (let j = 0; j + 1 < n; j++) {
    const k = i * n + j, at = [values[k], values[k + n], values[k + n + 1], values[k + 1]];
    let above = 0;
    for (const v of at) { if (v === null || !isFinite(v)) { above = 4; break; } if (v > level) above++; }
    if (above === 0 || above === 4) continue;
    const ends = [], keys = [2 * k, 2 * (k + n) + 1, 2 * (k + 1), 2 * k + 1];
    for (let e = 0; e < 4; e++) {
      const u = at[e], v = at[(e + 1) % 4], [p, q] = [corners[e], corners[(e + 1) % 4]];
      if ((u > level) === (v > level)) continue;
      const t = (level - u) / (v - u);
      place.set(keys[e], `${cut1(sx(i + p[0] + t * (q[0] - p[0])))},${cut1(sy(j + p[1] + t * (q[1] - p[1])))}`);
      ends.push(keys[e]);
    }
    for (let e = 0; e + 1 < ends.length; e += 2) { link(ends[e], ends[e + 1]); link(ends[e + 1], ends[e]); }
  }
  let d = "";
  const walk = (from) => {
    d += `M${place.get(from)}`;
    for (let here = from, to; (to = next.get(here)?.pop()) !== undefined; here = to) {
      const back = next.get(to);
      back.splice(back.indexOf(here), 1);
      d += `L${place.get(to)}`;
    }
  };
  for (const [key, ends] of next) if (ends.length === 1) walk(key);
  for (const [key, ends] of next) if (ends.length) walk(key);
  return d;
}

// A panel

class Panel {
  constructor(data, alone, charts) {
    this.data = data;
    this.charts = charts;
    for (const one of data.layers) if (one.type === "model") { // from the value in the middle of the window to that at zero
      const centre = data.window.map(([low, high]) => (low + high) / 2);
      one.offsets = one.middle.map((value, row) => one.slopes[row].reduce((sum, s, j) => sum - s * centre[j], value));
    }
    const [[x0, x1], [y0, y1]] = data.window;
    let width = W - PAD.left - PAD.right, height = H - PAD.top - PAD.bottom, left = PAD.left;
    if (data.equal) {
      const scale = Math.min(width / (x1 - x0), height / (y1 - y0));
      left += (width - scale * (x1 - x0)) / 2; width = scale * (x1 - x0); height = scale * (y1 - y0);
    }
    this.box = [left, PAD.top, width, height];
    this.sx = (x) => left + width * (x - x0) / (x1 - x0);
    this.sy = (y) => PAD.top + height * (y1 - y) / (y1 - y0);
    this.height = PAD.top + height + (data.ticks === false ? 10 : PAD.bottom);
    this.id = "cx" + Math.random().toString(36).slice(2);
    const still = data.layers.filter((layer) => this.isStill(layer)).map((layer) => this.layer(layer, 0)).join("");
    this.moving = data.layers.filter((layer) => !this.isStill(layer));
    this.figure = make("figure", {}, ...(alone ? [] : [make("h3", {}, data.title)]));
    const holder = make("div");
    holder.innerHTML = `<svg viewBox="0 0 ${W} ${cut1(this.height)}" role="img" aria-label="${escape(data.alt || data.title)}">
      <clipPath id="${this.id}"><rect x="${left}" y="${PAD.top}" width="${width}" height="${height}"/></clipPath>
      ${this.axes()}<g clip-path="url(#${this.id})"><g>${still}</g><g class="cx-moving"></g></g></svg>`;
    this.said = make("p", { class: "cx-said" });
    this.figure.append(holder, this.said);
    this.group = holder.querySelector(".cx-moving");
  }

  isStill(layer) { return !layer.born && layer.type !== "model"; }

  axes() {
    const [left, top, width, height] = this.box, { window, labels } = this.data, bottom = top + height;
    if (this.data.ticks === false) return "";
    let d = `<rect class="axis" x="${left}" y="${top}" width="${width}" height="${height}"/>`;
    for (const x of ticks(...window[0])) d += `<path class="axis" d="M${this.sx(x)},${bottom}v4"/><text class="tick" text-anchor="middle" x="${this.sx(x)}" y="${bottom + 16}">${short(x)}</text>`;
    for (const y of ticks(...window[1])) d += `<path class="axis" d="M${left},${this.sy(y)}h-4"/><text class="tick" text-anchor="end" x="${left - 7}" y="${this.sy(y) + 4}">${short(y)}</text>`;
    d += `<text text-anchor="middle" x="${left + width / 2}" y="${bottom + 33}">${escape(labels[0])}</text>`;
    return d + `<text text-anchor="middle" transform="translate(${left - 44},${top + height / 2}) rotate(-90)">${escape(labels[1] || "")}</text>`;
  }

  show(frame) {
    this.group.innerHTML = this.moving.map((layer) => this.layer(layer, frame)).join("");
    const { steps, facts = [], captions } = this.data;
    const said = facts.map((one) => `${one.name} ${number((one.values || this.charts[one.chart[0]].series[one.chart[1]].values)[frame])}`);
    if (steps) said.unshift(steps.words[steps.at[frame]]);
    if (captions) said.unshift(captions[frame]);
    this.said.textContent = said.join(", ");
  }

  visible(layer, frame) {
    if (!layer.born) return layer.items;
    const { born, died } = layer;
    if (layer.brief) return layer.items.filter((_, k) => born[k] === frame);
    return layer.items.filter((_, k) => born[k] <= frame && (!died || died[k] === null || frame < died[k]));
  }

  line(flat, closed) {
    let d = "", pen = "M";
    for (let k = 0; k + 1 < flat.length; k += 2) {
      if (flat[k] === null || flat[k + 1] === null) { pen = "M"; continue; }
      d += `${pen}${cut1(this.sx(flat[k]))},${cut1(this.sy(flat[k + 1]))}`; pen = "L";
    }
    return closed && d ? d + "Z" : d;
  }

  sign(x, y, role) { return `<path class="s dot ${role}" transform="translate(${cut1(x)},${cut1(y)})" d="${LOOKS[role] || LOOKS.query}"/>`; }

  layer(layer, frame) {
    const { type, role } = layer, items = this.visible(layer, frame), { sx, sy } = this;
    if (type === "model") return this.model(layer, frame);
    if (type === "contours") return layer.levels.map((level) => `<path class="s contour" d="${this.contour(layer.values, level)}"/>`).join("");
    if (!items.length) return "";
    if (type === "path") return `<path class="s ${role}" d="${items.map((item) => this.line(item, layer.closed)).join("")}"/>`;
    if (type === "points") return items.map((item) => this.sign(sx(item[0]), sy(item[1]), role)).join("");
    if (type === "levels") return items.map((y) => y === null ? "" : `<path class="s ${role}" d="M${this.box[0]},${sy(y)}h${this.box[2]}"/>`).join("");
    if (type === "arrows") return items.map((item) => this.arrow(item, role)).join("");
    if (type === "text") return items.map((item) => `<text class="halo ${role}" text-anchor="middle" x="${sx(item[0])}" y="${sy(item[1]) + 4}">${escape(item[2])}</text>`).join("");
    if (type === "bars") return `<path class="bars ${role}" d="${items.map((item) => this.bar(sx(item[0]), sy(item[1]), item[2])).join("")}"/>`;
    if (type === "outside") return items.map((item) => this.outside(item)).join("");
    return "";
  }

  bar(x, y, share, width = 7) { return `M${cut1(x - width / 2)},${cut1(y)}h${width}v${cut1(-44 * share)}h${-width}z`; }

  arrow([x0, y0, x1, y1], role) {
    const a = [this.sx(x0), this.sy(y0)], b = [this.sx(x1), this.sy(y1)], angle = Math.atan2(b[1] - a[1], b[0] - a[0]) * 180 / Math.PI;
    return `<path class="s ${role}" d="M${a}L${b}"/><path class="s ${role}" transform="translate(${b}) rotate(${angle})" d="M-8,-4L0,0L-8,4"/>`;
  }

  outside(item) {
    const [left, top, width, height] = this.box, frame = `M${left - 2},${top - 2}h${width + 4}v${height + 4}h${-width - 4}Z`;
    const [a, b] = [this.sx(item[0]), this.sx(item[1])];
    const inner = item.length === 2 ? `M${a},${top - 2}H${b}V${top + height + 2}H${a}Z` : this.line(item, true);
    return `<path class="outside" d="${frame}${inner}"/>`;
  }

  contour(values, level) {
    const n = this.data.grid, [left, top, width, height] = this.box;
    return contour(values, n, level, (i) => left + width * i / (n - 1), (j) => top + height - height * j / (n - 1));
  }

  // The model: the largest cut of each block, as the reduced problem of the frame had it

  alive(layer, frame) { return (k) => layer.born[k] <= frame && (!layer.died || layer.died[k] === null || frame < layer.died[k]); }

  surface(layer, frame) { // the model on the grid, and which cut is largest there; kept and extended while nothing dies
    const n = this.data.grid, count = layer.k === 1 ? n : n * n, blocks = layer.blocks;
    let kept = layer.kept;
    if (!kept || kept.frame > frame || layer.died) {
      const top = blocks ? Math.max(...blocks) + 1 : 1;
      kept = layer.kept = { frame: -1, row: 0, parts: Array.from({ length: top }, () => new Float64Array(count).fill(-Infinity)), which: new Int32Array(count).fill(-1) };
    }
    const [[x0, x1], [y0, y1]] = this.data.window, dx = (x1 - x0) / (n - 1), dy = (y1 - y0) / (n - 1), alive = this.alive(layer, frame);
    for (; kept.row < layer.born.length && layer.born[kept.row] <= frame; kept.row++) {
      const row = kept.row, block = blocks ? blocks[row] : 0;
      if (block < 0 || !alive(row)) continue;
      const part = kept.parts[block], which = kept.which, s = layer.slopes[row], b = layer.offsets[row];
      if (layer.k === 1) for (let i = 0; i < n; i++) { const v = s[0] * (x0 + i * dx) + b; if (v > part[i]) { part[i] = v; which[i] = row; } }
      else for (let i = 0, k = 0; i < n; i++) {
        let v = s[0] * (x0 + i * dx) + s[1] * y0 + b;
        const step = s[1] * dy;
        for (let j = 0; j < n; j++, k++, v += step) if (v > part[k]) { part[k] = v; which[k] = row; }
      }
    }
    kept.frame = frame;
    const total = new Float64Array(count);
    for (const part of kept.parts) for (let k = 0; k < count; k++) total[k] += part[k];
    if (layer.extra) for (let k = 0; k < count; k++) total[k] += layer.extra[k] === null ? NaN : layer.extra[k];
    return [total, kept.which];
  }

  model(layer, frame) {
    layer.k ||= this.data.equal ? 2 : 1;
    return layer.k === 1 ? this.modelOnLine(layer, frame) : this.modelOnPlane(layer, frame);
  }

  modelOnLine(layer, frame) {
    const n = this.data.grid, [[x0, x1], [y0, y1]] = this.data.window, dx = (x1 - x0) / (n - 1), { sx, sy } = this;
    const [total] = this.surface(layer, frame - 1), [left, top, width, height] = this.box;
    const curve = (f) => { let d = "", pen = "M"; for (let i = 0; i < n; i++) { const v = f(i); if (isFinite(v)) { d += `${pen}${cut1(sx(x0 + i * dx))},${cut1(Math.max(-9e3, Math.min(9e3, sy(v))))}`; pen = "L"; } else pen = "M"; } return d; };
    const extra = (i) => layer.extra ? layer.extra[i] ?? NaN : 0, before = this.alive(layer, frame - 1), now = this.alive(layer, frame);
    const one = (row) => curve((i) => layer.slopes[row][0] * (x0 + i * dx) + layer.offsets[row] + extra(i));
    const straight = (row) => { const [s] = layer.slopes[row], b = layer.offsets[row]; return `M${cut1(sx(x0))},${cut1(sy(s * x0 + b))}L${cut1(sx(x1))},${cut1(sy(s * x1 + b))}`; };
    let old = "", fresh = "", halves = "", shown = 0, total1 = 0;
    for (let row = layer.born.length - 1; row >= 0; row--) {
      if (!now(row)) continue;
      const block = layer.blocks ? layer.blocks[row] : 0;
      if (block < 0) {
        const [s] = layer.slopes[row], end = sx(-layer.offsets[row] / s), far = s > 0 ? left + width : left;
        if (isFinite(end)) halves += `<path class="cutoff" d="M${end},${top}H${far}V${top + height}H${end}Z"/><path class="s half" d="M${end},${top}v${height}"/>`;
      } else if (!before(row)) fresh += one(row);
      else if (!layer.extra) old += straight(row);
      else if (shown++ < 60) old += one(row);
    }
    const steady = layer.stabilised && layer.stabilised[frame];
    let more = "";
    if (steady && steady.length > 1) more = `<path class="s stabilised" d="${curve((i) => total[i] + steady[1] / 2 * (x0 + i * dx - steady[0]) ** 2 + steady[2])}"/>`;
    else if (steady) {
      const y = sy(steady[0]);
      more = `<rect class="band" x="${left}" y="${y}" width="${width}" height="${Math.max(0, top + height - y)}"/><path class="s level" d="M${left},${y}h${width}"/>`;
    }
    const floor = top + height;
    return `${more}${halves}<path class="s cuts" d="${old}"/><path class="s model" d="${curve((i) => total[i])}"/><path class="s newest" d="${fresh}"/>${this.queries(layer, frame, (at) => [sx(at[0]), floor - 4])}`;
  }

  modelOnPlane(layer, frame) {
    const [total, which] = this.surface(layer, frame - 1), { sx, sy } = this, [[x0, x1], [y0, y1]] = this.data.window;
    const square = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]], now = this.alive(layer, frame), draw = (polygon) => this.line(polygon.flat(), true);
    const levels = this.data.layers.find((one) => one.type === "contours")?.levels || [];
    const base = levels.length ? [2 * levels[0] - levels[levels.length - 1], ...[0.5, 0.2, 0.07].map((f) => levels[0] - f * (levels[levels.length - 1] - levels[0]))] : [];
    const model = frame ? [...base, ...levels].map((level) => this.contour(total, level)).join("") : "";
    let halves = "", edges = "", cells = "";
    const size = Math.max(Math.abs(x0), Math.abs(x1), Math.abs(y0), Math.abs(y1));
    if (layer.blocks) for (let row = 0; row < layer.born.length; row++) {
      if (layer.blocks[row] >= 0 || !now(row)) continue;
      const [a, b] = layer.slopes[row], away = clipped(square, a, b, layer.offsets[row]);
      halves += draw(away);
      edges += this.line(away.filter(([x, y]) => Math.abs(a * x + b * y + layer.offsets[row]) <= 1e-9 * size * (Math.abs(a) + Math.abs(b))).flat());
    }
    if (halves) halves = `<path class="cutoff" d="${halves}"/><path class="s half" d="${edges}"/>`;
    if (frame && !layer.blocks?.some((block) => block > 0)) cells = this.cells(layer, which, square, draw);
    const steady = layer.stabilised && layer.stabilised[frame];
    const band = steady && steady.length === 1 ? `<path class="s level" d="${this.contour(total, steady[0])}"/>` : "";
    return `${halves}<path class="s cells" d="${cells}"/><path class="s model" style="stroke-width:1.2" d="${model}"/>${band}${this.queries(layer, frame, (at) => [sx(at[0]), sy(at[1])])}`;
  }

  cells(layer, which, square, draw) { // where each cut is the largest, exactly, among those that are anywhere on the grid
    const active = [...new Set(which)].filter((row) => row >= 0);
    if (active.length > 120) return "";
    return active.map((row) => {
      const [a, b] = layer.slopes[row], c = layer.offsets[row];
      let cell = square;
      for (const other of active) {
        if (other === row) continue;
        const [p, q] = layer.slopes[other];
        cell = clipped(cell, a - p, b - q, c - layer.offsets[other]);
        if (!cell.length) return "";
      }
      return draw(cell);
    }).join("");
  }

  queries(layer, frame, place) { // where cuts come from, and a bar on each that has a multiplier
    const now = this.alive(layer, frame), before = this.alive(layer, frame - 1), weights = layer.weights.slice(0, frame + 1).findLast((one) => one) || [];
    let d = "", bars = "", fresh = "", most = 0;
    for (let row = 0; row < layer.born.length; row++) {
      const at = layer.at[row];
      if (!at || !now(row)) continue;
      const [x, y] = place(at);
      if (before(row)) d += `M${cut1(x - 2.5)},${cut1(y)}l2.5,-2.5 2.5,2.5 -2.5,2.5z`; else fresh += `<path class="s newest" transform="translate(${cut1(x)},${cut1(y)})" d="${LOOKS.query}"/>`;
    }
    for (let k = 1; k < weights.length; k += 2) most = Math.max(most, weights[k]);
    for (let k = 0; k < weights.length; k += 2) {
      const at = layer.at[weights[k]];
      if (at) { const [x, y] = place(at); bars += this.bar(x, y - 2, weights[k + 1] / most); }
    }
    return `<path class="old" d="${d}"/>${fresh}<path class="bars" d="${bars}"/>`;
  }
}

// A chart over all frames

class Chart {
  constructor(data, frames, go) {
    this.data = data;
    const all = data.series.flatMap((one) => one.values).filter((v) => v !== null && (!data.log || v > 0)).sort((a, b) => a - b);
    let low = all[0] ?? 0.1, high = all[all.length - 1] ?? 1;
    if (!data.log && all.length > 20) { // without early values so far off that the last ones could not be read
      const bottom = all[Math.floor(all.length * 0.05)], top = all[Math.ceil(all.length * 0.95) - 1], room = 3 * (top - bottom);
      if (low < bottom - room) low = bottom;
      if (high > top + room) high = top;
    }
    if (data.log) { low = 10 ** Math.floor(Math.log10(low)); high = 10 ** Math.max(Math.ceil(Math.log10(high)), Math.log10(low) + 1); }
    else { const margin = 0.08 * (high - low) || 0.1 * Math.abs(high) || 1; low -= margin; high += margin; }
    const { w, h, left, right, top, bottom } = CHART, width = w - left - right, height = h - top - bottom, f = data.log ? Math.log10 : (v) => v;
    this.sx = (k) => left + width * k / Math.max(1, frames - 1);
    this.sy = (v) => Math.max(top - 20, Math.min(top + height + 20, top + height * (f(high) - f(v)) / (f(high) - f(low))));
    let d = `<rect class="axis" x="${left}" y="${top}" width="${width}" height="${height}"/>`;
    const decades = Math.round(Math.log10(high / low)), marks = data.log ? Array.from({ length: decades + 1 }, (_, k) => low * 10 ** k).filter((_, k) => k % Math.ceil(decades / 5) === 0) : ticks(low, high, 4);
    for (const y of marks) d += `<path class="rule" d="M${left},${this.sy(y)}h${width}"/><text class="tick" text-anchor="end" x="${left - 6}" y="${this.sy(y) + 4}">${data.log ? y.toExponential(0).replace("e+0", "e0") : short(y)}</text>`;
    for (const x of ticks(0, frames - 1)) if (Number.isInteger(x)) d += `<text class="tick" text-anchor="middle" x="${this.sx(x)}" y="${top + height + 15}">${x}</text>`;
    const curves = data.series.map((one) => {
      let line = "", pen = "M";
      one.values.forEach((v, k) => { if (v === null || (data.log && v <= 0)) { pen = "M"; return; } line += `${pen}${cut1(this.sx(k))},${cut1(this.sy(v))}`; pen = "L"; });
      return `<path class="s ${one.role}" ${placed(one)} d="${line}"/>`;
    }).join("");
    const id = "cx" + Math.random().toString(36).slice(2);
    this.figure = make("figure", {}, make("h3", {}, data.title));
    const holder = make("div");
    holder.innerHTML = `<svg viewBox="0 0 ${w} ${h}" role="img" aria-label="${escape(data.title)} over the iterations"><clipPath id="${id}"><rect x="${left}" y="${top}" width="${width}" height="${height}"/></clipPath>
      ${d}<g clip-path="url(#${id})">${curves}</g><path class="cursor" d="M0,${top}v${height}"/><g class="cx-moving"></g></svg>`;
    this.figure.append(holder);
    this.cursor = holder.querySelector(".cursor");
    this.dots = holder.querySelector(".cx-moving");
    const svg = holder.firstElementChild, drag = (event) => {
      const box = svg.getBoundingClientRect();
      go(Math.round(((event.clientX - box.left) / box.width * w - left) / width * (frames - 1)));
    };
    svg.style.cursor = "ew-resize";
    svg.style.touchAction = "none";
    svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); drag(event); });
    svg.addEventListener("pointermove", (event) => { if (event.buttons) drag(event); });
  }

  show(frame) {
    this.cursor.setAttribute("transform", `translate(${this.sx(frame)},0)`);
    this.dots.innerHTML = this.data.series.map((one) => {
      const v = one.values[frame];
      return v === null || v === undefined || (this.data.log && v <= 0) ? "" : `<circle class="now" r="4" cx="${this.sx(frame)}" cy="${cut1(this.sy(v))}"/>`;
    }).join("");
  }
}

function legend(data) {
  const list = make("ul", { class: "cx-legend", "aria-label": "legend" }), known = new Set();
  const add = (name, inside) => {
    if (!name || known.has(name)) return;
    known.add(name);
    const item = make("li");
    item.innerHTML = `<svg viewBox="0 0 30 16" aria-hidden="true">${inside}</svg><span>${escape(name)}</span>`;
    list.append(item);
  };
  const stroke = (role, style = "") => `<path class="s ${role}" ${style} d="M1,8H29"/>`, sign = (role) => `<path class="s dot ${role}" transform="translate(15,8)" d="${LOOKS[role] || LOOKS.query}"/>`;
  for (const panel of data.panels) for (const one of panel.layers) {
    if (one.type === "model") {
      add("model", stroke("model"));
      add("newest cut", panel.equal ? `<path class="s newest" transform="translate(15,8)" d="${LOOKS.query}"/>` : stroke("newest"));
      if (!panel.equal) add("older cuts", stroke("cuts"));
      else if (!one.blocks?.some((block) => block > 0)) add("pieces of the model", stroke("cells"));
      if (one.blocks?.includes(-1)) add("half-spaces cut off", `<rect class="cutoff" style="opacity:.4" x="4" y="2" width="22" height="12"/>`);
      if (!panel.equal && one.stabilised?.some((s) => s?.length > 1)) add("model with prox term", stroke("stabilised"));
      if (one.stabilised?.some((s) => s?.length === 1)) add("level", stroke("level"));
      add("multipliers", `<rect class="bars" x="11" y="2" width="8" height="13"/>`);
    } else if (one.type === "points") add(one.name, sign(one.role));
    else if (one.type === "contours") add(one.name, stroke("contour"));
    else if (one.type === "outside") add(one.name, `<rect class="outside" x="4" y="2" width="22" height="12"/>`);
    else if (one.type === "bars") add(one.name, `<rect class="bars" x="11" y="2" width="8" height="13"/>`);
    else add(one.name, (one.closed ? `<rect class="s ${one.role}" x="4" y="2" width="22" height="12"/>` : stroke(one.role)) + (["prox", "level"].includes(one.role) ? sign(one.role) : ""));
  }
  for (const one of data.charts.flatMap((chart) => chart.series.length > 1 ? chart.series : [])) add(one.name, stroke(one.role, placed(one)));
  return list;
}

export function render(element, data, alone = false) {
  const root = make("div", { class: "cx", role: "group", tabindex: "0", "aria-label": data.title + ". Arrow keys step, space plays." });
  const last = data.frames - 1, calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let frame = 0, playing = null;
  const panels = data.panels.map((one) => new Panel(one, data.panels.length === 1, data.charts)), charts = data.charts.map((one) => new Chart(one, data.frames, (k) => { stop(); go(k); }));
  const slider = make("input", { type: "range", min: 0, max: last, value: 0, "aria-label": data.counter });
  const back = make("button", { type: "button", "aria-label": "back" }, "Back"), next = make("button", { type: "button", "aria-label": "next" }, "Next");
  const play = make("button", { type: "button" }, "Play"), place = make("output", { "aria-live": "off" });

  function go(to) {
    frame = Math.max(0, Math.min(last, to));
    const began = performance.now();
    for (const one of panels) one.show(frame);
    for (const one of charts) one.show(frame);
    slider.value = frame;
    slider.setAttribute("aria-valuetext", `${data.counter} ${frame} of ${last}. ${panels.map((one) => one.said.textContent).join(". ")}`);
    place.textContent = `${data.counter} ${frame} / ${last}`;
    root.dataset.frame = frame;
    root.dataset.milliseconds = (performance.now() - began).toFixed(2);
  }
  function stop() {
    if (playing) cancelAnimationFrame(playing.request);
    playing = null;
    play.textContent = "Play";
  }
  function start() { // at most half a minute, never slower than two frames in a second; the rate reached is kept
    if (frame === last) go(0);
    const rate = calm ? 1 : Math.max(2, last / 30), began = performance.now(), first = frame;
    playing = {};
    play.textContent = "Pause";
    const tick = (time) => {
      const due = first + Math.floor((time - began) / 1000 * rate);
      if (due > frame) { go(Math.min(due, frame + 1)); root.dataset.rate = ((frame - first) / (time - began) * 1000).toFixed(1); }
      if (frame === last) stop(); else playing.request = requestAnimationFrame(tick);
    };
    playing.request = requestAnimationFrame(tick);
  }
  const toggle = () => playing ? stop() : start(), step = (by) => { stop(); go(frame + by); };

  back.addEventListener("click", () => step(-1));
  next.addEventListener("click", () => step(1));
  play.addEventListener("click", toggle);
  slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
  const keys = alone ? document : root; // a page of its own needs no focus first; there, up and down scroll it until the picture has the focus
  const pressed = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowRight: 1, ArrowLeft: -1, Home: -last, End: last, ...(root.contains(event.target) && { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }) };
    if (steps[event.key]) step(steps[event.key]); else if (event.key !== " " || event.target.tagName === "BUTTON") return; else toggle();
    event.preventDefault();
    event.stopPropagation();
  };
  keys.addEventListener("keydown", pressed);
  let touched = null;
  root.addEventListener("touchstart", (event) => { touched = event.target.closest("input, button, [style*=touch-action]") ? null : event.touches[0].clientX; }, { passive: true });
  root.addEventListener("touchend", (event) => {
    const way = touched === null ? 0 : event.changedTouches[0].clientX - touched;
    if (Math.abs(way) > 40) step(way < 0 ? 1 : -1);
  });

  let left = 0; // paper has the last frame
  const print = () => { left = frame; go(last); }, printed = () => go(left);
  addEventListener("beforeprint", print);
  addEventListener("afterprint", printed);

  const row = (name, parts) => make("div", { class: name }, ...parts), bar = make("div", { class: "cx-bar", role: "group", "aria-label": "frames" }, back, play, next, slider, place);
  const drawn = panels.map((one) => one.figure), below = charts.map((one) => one.figure);
  const parts = panels.length === 1 && charts.length ? [row("cx-row", [row("cx-main", [...drawn, bar]), row("cx-side", below)]), legend(data)] : [row("cx-grid", drawn), bar, legend(data), row("cx-grid", below)];
  root.append(make("style", {}, STYLE), make("h2", {}, data.title), ...parts);
  element.replaceChildren(root);
  root.explorer = { go, frames: data.frames };
  go(data.start ?? 0);
  return () => { stop(); keys.removeEventListener("keydown", pressed); removeEventListener("beforeprint", print); removeEventListener("afterprint", printed); };
}
