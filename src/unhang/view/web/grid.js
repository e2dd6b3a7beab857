// The grid: a tile a rank, blocks of a node. The shape says the state; colour repeats it.
const SIZES = [44, 34, 28, 22, 18, 15, 13, 11, 10, 9, 8, 7, 6];
const grid = $("grid");
let run = null, order = [], tiles = null, chosen = -1, late = new Set();
const at = (name, n) => { const column = run.ranks[name]; return column.length === 1 ? column[0] : column[n]; };
const places = new Map();

function drawTile(paint, word, x, y, size, isLate, isChosen) {
  const trouble = word === "silent" || word === "stopped" || word === "dead", small = size < 12 && trouble;
  const bad = small ? colours.card : colours.bad; // a small sign of trouble stands out by its whole tile
  const fill = (colour, l, t, w, h) => { paint.fillStyle = colour; paint.fillRect(x + l * size, y + t * size, w * size, h * size); };
  paint.fillStyle = small ? colours.bad : isLate ? colours["bad-weak"] : colours.cell;
  paint.fillRect(x, y, size, size);
  if (word === "busy") fill(colours.busy, 0.18, 0.18, 0.64, 0.64);
  else if (word === "waiting") fill(colours.waiting, 0.36, 0.36, 0.28, 0.28);
  else if (word === "idle") fill(colours.warn, 0.14, 0.39, 0.72, 0.22);
  else if (word === "silent") { fill(bad, 0.39, 0.1, 0.22, 0.5); fill(bad, 0.39, 0.7, 0.22, 0.2); }
  else if (word === "stopped") { fill(bad, 0.18, 0.15, 0.22, 0.7); fill(bad, 0.6, 0.15, 0.22, 0.7); }
  else if (word === "over") fill(colours.muted, 0.3, 0.46, 0.4, 0.08);
  else if (word) {
    paint.strokeStyle = word === "dead" ? bad : colours.warn;
    paint.lineWidth = Math.max(1.2, size * 0.13);
    paint.beginPath();
    const a = x + 0.22 * size, b = x + 0.78 * size, c = y + 0.22 * size, d = y + 0.78 * size;
    if (word === "dead") { paint.moveTo(a, c); paint.lineTo(b, d); paint.moveTo(b, c); paint.lineTo(a, d); } else paint.rect(a, c, b - a, d - c);
    paint.stroke();
  }
  if (isLate || isChosen) {
    const width = Math.max(1.5, size * 0.07);
    paint.lineWidth = width;
    paint.strokeStyle = isChosen ? colours.link : colours.bad;
    paint.strokeRect(x + width / 2, y + width / 2, size - width, size - width);
  }
}

// Ranks in the order of their nodes: that of the rows below too.
function learnOrder() {
  const count = run.ranks.rank.length, nodes = new Map();
  for (let n = 0; n < count; n++) {
    const node = at("node", n);
    if (!nodes.has(node)) nodes.set(node, []);
    nodes.get(node).push(n);
  }
  order = [...nodes.values()];
  places.clear();
  for (let n = 0; n < count; n++) places.set(at("rank", n), n);
}

function laid(width, size) {
  const gap = size > 12 ? 2 : 1, between = Math.max(5, Math.round(size / 2.2)), head = order.length > 1 && size >= 18 ? 15 : 0;
  const x = [], y = [], labels = [];
  let left = 0, top = head, tallest = 0, right = 0;
  order.forEach((ranks) => {
    const wide = Math.max(1, Math.min(ranks.length, order.length > 1 ? 8 : Math.max(8, Math.floor((width + between) / (8 * (size + gap) + between)) * 8)));
    const blocks = Math.ceil(wide / 8), across = wide * (size + gap) + (blocks - 1) * between, rows = Math.ceil(ranks.length / wide);
    if (left > 0 && left + across > width) { left = 0; top += tallest + between + head; tallest = 0; }
    if (head) labels.push([left, top - 4, ranks[0], across]);
    ranks.forEach((n, place) => {
      const column = place % wide;
      x[n] = left + column * (size + gap) + Math.floor(column / 8) * between;
      y[n] = top + Math.floor(place / wide) * (size + gap);
    });
    right = Math.max(right, left + across - gap);
    left += across + between;
    tallest = Math.max(tallest, rows * (size + gap));
  });
  return { x, y, labels, size, right, height: Math.max(size, top + tallest) };
}

function drawGrid() {
  if (!run || !run.ranks) return;
  const begun = performance.now(), width = grid.clientWidth, count = run.ranks.rank.length;
  const room = count > 2048 ? 900 : 460;
  for (const size of SIZES) { tiles = laid(width, size); if (tiles.height <= room && tiles.right <= width) break; }
  const { paint } = fitted(grid, width, Math.ceil(tiles.height) + 1);
  paint.fillStyle = colours.card;
  paint.fillRect(0, 0, width, tiles.height + 2);
  paint.font = FONT;
  paint.fillStyle = colours.muted;
  for (const [x, y, n, most] of tiles.labels) paint.fillText(cutTo(paint, run.nodes[at("node", n)] ?? "", most), x, y);
  for (let n = 0; n < count; n++) {
    const rank = at("rank", n);
    drawTile(paint, states[at("state", n)].word, tiles.x[n], tiles.y[n], tiles.size, late.has(rank), chosen === n);
    if (tiles.size >= 34) { paint.fillStyle = colours.ink; paint.fillText(String(rank), tiles.x[n] + 3, tiles.y[n] + 11); }
  }
  root.dataset.gridMs = (performance.now() - begun).toFixed(1);
  root.dataset.ranks = count;
  root.dataset.gridRight = tiles.right;
}

function cutTo(paint, text, most) {
  if (paint.measureText(text).width <= most) return text;
  while (text.length > 1 && paint.measureText(text + "…").width > most) text = text.slice(0, -1);
  return text + "…";
}

// Its phase and the name the program gave it; a phase without a name says less than the line.
function doing(n) {
  const label = at("label", n) >= 0 ? ` (${run.labels[at("label", n)]})` : "";
  return at("phase", n) === OTHER && !label && at("place", n) >= 0 ? "" : phases[at("phase", n)] + label;
}

function about(n) {
  const waits = at("waits_s", n);
  const parts = [`${words.rank} ${at("rank", n)}`, run.nodes[at("node", n)], states[at("state", n)].text + (waits >= 1 ? ` ${duration(waits)}` : ""), doing(n)];
  if (at("step", n) >= 0) parts.push(`${words.step} ${at("step", n).toLocaleString()}`);
  if (at("place", n) >= 0) parts.push(short(run.places[at("place", n)]));
  if (late.has(at("rank", n))) parts.push(words.late);
  return parts.filter(Boolean).join(" · ");
}

function tileAt(event) {
  if (!tiles) return -1;
  const box = grid.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, size = tiles.size + 2;
  return tiles.x.findIndex((left, n) => x >= left && x < left + size && y >= tiles.y[n] && y < tiles.y[n] + size);
}

function choose(n) {
  chosen = n;
  $("grid-said").textContent = n >= 0 ? about(n) : "";
  drawGrid();
}

// The name of a node, which may be cut above its tiles.
function nodeAt(event) {
  const box = grid.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const label = tiles ? tiles.labels.find(([left, bottom, , most]) => x >= left && x < left + most && y <= bottom && y > bottom - 14) : undefined;
  return label ? run.nodes[at("node", label[2])] ?? "" : "";
}

grid.addEventListener("mousemove", (event) => { const n = tileAt(event); grid.title = nodeAt(event); $("grid-said").textContent = n >= 0 ? about(n) : chosen >= 0 ? about(chosen) : ""; });
grid.addEventListener("click", (event) => { const n = tileAt(event); if (n >= 0) { choose(n); openRank(at("rank", n)); } });
grid.addEventListener("keydown", (event) => {
  if (!tiles || event.ctrlKey || event.metaKey || event.altKey) return;
  const count = tiles.x.length, here = Math.max(0, chosen);
  const beside = (step) => { const y = tiles.y[here]; for (let n = here + step; n >= 0 && n < count; n += step) if (tiles.y[n] !== y && Math.abs(tiles.x[n] - tiles.x[here]) < tiles.size) return n; return here; };
  const moves = { ArrowLeft: () => here - 1, ArrowRight: () => here + 1, ArrowUp: () => beside(-1), ArrowDown: () => beside(1), Home: () => 0, End: () => count - 1 };
  if (event.key === "Enter" && chosen >= 0) openRank(at("rank", chosen));
  else if (moves[event.key]) { event.preventDefault(); choose(chosen < 0 ? 0 : Math.min(count - 1, Math.max(0, moves[event.key]()))); }
});
$("find").addEventListener("change", () => {
  const n = $("find").value === "" ? undefined : places.get(Number($("find").value));
  if (n !== undefined) { choose(n); openRank(at("rank", n)); }
});

function drawLegend() {
  const counts = new Map();
  for (let n = 0; n < run.ranks.rank.length; n++) counts.set(at("state", n), (counts.get(at("state", n)) || 0) + 1);
  const items = [...counts].sort((a, b) => b[1] - a[1]).map(([number, count]) => {
    const item = made("li"), sign = made("canvas");
    item.append(sign, `${states[number].text}: ${count.toLocaleString()}`);
    drawTile(fitted(sign, 15, 15).paint, states[number].word, 0, 0, 15, false, false);
    return item;
  });
  if (late.size) {
    const item = made("li"), sign = made("canvas");
    item.append(sign, `${words.late}: ${late.size.toLocaleString()}`);
    drawTile(fitted(sign, 15, 15).paint, "", 0, 0, 15, true, false);
    items.push(item);
  }
  $("legend").replaceChildren(...items);
}
