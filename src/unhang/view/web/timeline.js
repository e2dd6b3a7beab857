// Ranks × time. Rows come from the run folder; what is newer than they are comes from the states this page saw.
const time = $("time");
const LEFT = 92, RIGHT = 10, TOP = 34, LANE = 40, MAX_LANES = 6, MAX_SEEN = 900;
let rows = [], sites = [], generation = 0, episodes = [], byRank = new Map(), firstSeen = Infinity, lastRow = -Infinity;
let seen = [], lanesOf = [], machine = { nodes: [], lanes: [] };
let window0 = null, lane0 = 0, lane1 = 0, hover = null, dragged = null;

function takeRows(answer) {
  if (answer.generation !== generation || answer.first === 0) { rows = []; sites = []; byRank = new Map(); generation = answer.generation; firstSeen = Infinity; lastRow = -Infinity; }
  sites.length = answer.first_site;
  sites.push(...answer.sites);
  for (const row of answer.rows) {
    rows.push(row);
    if (!byRank.has(row[0])) byRank.set(row[0], []);
    byRank.get(row[0]).push(row);
    firstSeen = Math.min(firstSeen, row[1] - row[2]);
    lastRow = Math.max(lastRow, row[1]);
  }
  episodes = answer.episodes;
  laneOrder();
}

// One column of what every rank did at this state, kept while the page is open; thinned, never unbounded.
function remember() {
  if (seen.length && run.at_s <= seen[seen.length - 1].at) return;
  const count = run.ranks.rank.length, codes = new Uint8Array(count);
  for (let n = 0; n < count; n++) {
    const word = states[at("state", n)].word;
    codes[n] = word === "waiting" ? at("phase", n) + WAITS : word === "busy" || word === "idle" ? at("phase", n) : word === "over" || word === "absent" ? NOTHING : TROUBLE;
  }
  seen.push({ at: run.at_s, codes });
  if (seen.length > MAX_SEEN) seen = seen.filter((_, n) => n % 2 || n > MAX_SEEN - 60);
}

function span() {
  const begun = Math.min(run.started_s || Infinity, firstSeen, seen.length ? seen[0].at : Infinity);
  const first = rows.length ? Math.max(begun, Math.min(firstSeen - 1, begun + 1e9)) : seen.length ? seen[0].at - 1 : begun;
  const last = run.live ? run.at_s : Math.max(lastRow, seen.length && !rows.length ? run.at_s : -Infinity, first + 1);
  return [first, Math.max(last, first + 2)];
}
const view = () => window0 || span();
const laneCount = () => Math.max(1, lane1 - lane0);

function laneOrder() {
  const known = new Set();
  lanesOf = [];
  for (const ranks of order) for (const n of ranks) { lanesOf.push({ rank: at("rank", n), n }); known.add(at("rank", n)); }
  for (const rank of [...byRank.keys()].sort((a, b) => a - b)) if (!known.has(rank)) lanesOf.push({ rank, n: -1 });
  if (lane1 > lanesOf.length || lane1 === 0) { lane0 = 0; lane1 = lanesOf.length; }
}

function plotHeight() { return Math.min(440, Math.max(110, lanesOf.length * (lanesOf.length <= 16 ? 24 : 16))); }

function paintRows(width, height, scale) {
  const w = Math.round(width * scale), h = Math.round(height * scale);
  const image = new ImageData(w, h), data = new Uint32Array(image.data.buffer);
  data.fill(pixels[NOTHING]);
  const [t0, t1] = view(), across = w / (t1 - t0), down = h / laneCount();
  const gap = down >= 8 * scale ? Math.round(2 * scale) : down >= 4 * scale ? 1 : 0, step = Math.max(2, Math.round(4 * scale));
  const block = (code, x0, x1, y0, y1) => {
    const colour = pixels[code], striped = code >= WAITS && code < TROUBLE;
    for (let y = y0; y < y1; y++) {
      const line = y * w;
      if (striped) for (let x = x0; x < x1; x++) data[line + x] = (x + y) % step === 0 ? hatch : colour;
      else data.fill(colour, line + x0, line + x1);
    }
  };
  const draw = (lane, begin, end, mix, waitsOnly) => {
    if (end < t0 || begin > t1) return;
    const x0 = Math.max(0, Math.floor((begin - t0) * across)), x1 = Math.min(w, Math.max(x0 + 1, Math.ceil((end - t0) * across)));
    const y0 = Math.max(0, Math.floor((lane - lane0) * down)), y1 = Math.min(h, Math.max(y0 + 1, Math.floor((lane - lane0 + 1) * down) - gap));
    if (y1 <= y0) return;
    const stacked = y1 - y0 >= 6 * scale && mix.length > 2;
    const most = mix.length ? mix[0] : NOTHING;
    if (waitsOnly !== null && waitsOnly !== (most >= WAITS && most < TROUBLE)) return;
    if (!stacked) { block(most, x0, x1, y0, y1); return; }
    // Waits from the top, own work from the bottom: each as high as its share of the looks.
    let top = y0, bottom = y1, sum = 0;
    for (let n = 1; n < mix.length; n += 2) sum += mix[n];
    const parts = [];
    for (let n = 0; n < mix.length; n += 2) parts.push([mix[n], (mix[n + 1] / sum) * (y1 - y0)]);
    parts.sort((a, b) => a[0] - b[0]);
    block(parts[0][0], x0, x1, y0, y1);
    for (const [code, tall] of parts.slice(1)) {
      const high = Math.round(tall);
      if (code >= WAITS) { block(code, x0, x1, top, Math.min(y1, top + high)); top += high; } else { block(code, x0, x1, Math.max(y0, bottom - high), bottom); bottom -= high; }
    }
  };
  // Where several ranks share a line of pixels, the one that does not wait is shown.
  const crowded = down < scale;
  const laneByRank = new Map(lanesOf.map(({ rank }, lane) => [rank, lane]));
  const ends = new Float64Array(lanesOf.length).fill(-Infinity);
  for (const pass of crowded ? [true, false] : [null]) {
    for (const row of rows) {
      const lane = laneByRank.get(row[0]);
      if (lane === undefined) continue;
      if (row[1] > ends[lane]) ends[lane] = row[1];
      if (lane >= lane0 - 1 && lane <= lane1) draw(lane, row[1] - row[2], row[1], row[5], pass);
    }
  }
  paintSeen(data, w, h, { t0, t1, across, down, gap, step, ends });
  return image;
}

// States this page saw, column by column; rows of the folder go first. Kept tight: ranks × columns may be millions.
function paintSeen(data, w, h, { t0, t1, across, down, gap, step, ends }) {
  const first = Math.floor(lane0), count = Math.min(lanesOf.length, lane1) - first;
  const tops = new Int32Array(count), feet = new Int32Array(count), numbers = new Int32Array(count);
  for (let k = 0; k < count; k++) {
    tops[k] = Math.max(0, Math.floor((first + k - lane0) * down));
    feet[k] = Math.min(h, Math.max(tops[k] + 1, Math.floor((first + k - lane0 + 1) * down) - gap));
    numbers[k] = lanesOf[first + k].n;
  }
  const column = new Uint8Array(h), none = 255;
  for (let s = 0; s < seen.length; s++) {
    const { at: end, codes } = seen[s], begin = s ? Math.max(seen[s - 1].at, end - 30) : end - 1;
    const x0 = Math.max(0, Math.floor((begin - t0) * across)), x1 = Math.min(w, Math.max(x0 + 1, Math.ceil((end - t0) * across)));
    if (end < t0 || begin > t1 || x1 <= x0) continue;
    column.fill(none);
    for (let k = 0; k < count; k++) {
      const n = numbers[k];
      if (n < 0 || n >= codes.length || end <= ends[first + k]) continue;
      const code = codes[n], calm = code >= WAITS && code !== TROUBLE;
      for (let y = tops[k]; y < feet[k]; y++) if (column[y] === none || !calm) column[y] = code;
    }
    for (let y = 0; y < h; y++) {
      const code = column[y];
      if (code === none) continue;
      const striped = code >= WAITS && code < TROUBLE, colour = pixels[code], line = y * w;
      for (let x = x0; x < x1; x++) data[line + x] = striped && (x + y) % step === 0 ? hatch : colour;
    }
  }
}

let painted = null, paintedFor = "";
function image(width, height, scale) {
  const last = seen.length ? seen[seen.length - 1].at : 0;
  const key = [width, height, scale, ...view(), lane0, lane1, lanesOf.length, generation, rows.length, seen.length, last, colours.card].join();
  if (key !== paintedFor) { painted = paintRows(width, height, scale); paintedFor = key; }
  return painted;
}

function niceStep(range, most) {
  for (const step of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]) if (range / step <= most) return step;
  return Math.ceil(range / most / 86400) * 86400;
}

function drawTime() {
  if (!run || !run.ranks) return;
  const begun = performance.now(), width = time.clientWidth, lanes = machine.lanes.filter(changes).slice(0, MAX_LANES);
  const tall = plotHeight(), height = TOP + tall + (lanes.length ? 14 : 4) + lanes.length * LANE;
  const { paint, scale } = fitted(time, width, height), wide = Math.max(50, width - LEFT - RIGHT);
  paint.fillStyle = colours.card;
  paint.fillRect(0, 0, width, height);
  paint.putImageData(image(wide, tall, scale), Math.round(LEFT * scale), Math.round(TOP * scale));
  paint.font = FONT;
  const [t0, t1] = view(), x = (t) => LEFT + ((t - t0) / (t1 - t0)) * wide;
  drawAxis(paint, t0, t1, x, wide, height);
  drawNames(paint, tall);
  drawEpisodes(paint, t0, t1, x, wide, tall);
  lanes.forEach((lane, n) => drawLane(paint, lane, TOP + tall + 14 + n * LANE, t0, t1, x, wide));
  if (hover !== null) { paint.fillStyle = colours.muted; paint.fillRect(hover, TOP, 1, height - TOP); }
  root.dataset.timeMs = (performance.now() - begun).toFixed(1);
  root.dataset.rows = rows.length;
}

function drawAxis(paint, t0, t1, x, wide, height) {
  const step = niceStep(t1 - t0, Math.max(2, wide / 110));
  paint.textAlign = "center";
  for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) {
    paint.fillStyle = colours.line;
    paint.fillRect(Math.round(x(t)), TOP - 5, 1, 5);
    paint.fillStyle = colours.muted;
    if (x(t) > LEFT + 24 && x(t) < LEFT + wide - 24) paint.fillText(clock(t), x(t), TOP - 8);
  }
  paint.textAlign = "left";
}

function drawNames(paint, tall) {
  const down = tall / laneCount();
  paint.textAlign = "right";
  const nodeOf = (lane) => (lanesOf[lane].n >= 0 ? at("node", lanesOf[lane].n) : -2);
  let said = -100;
  for (let lane = Math.floor(lane0); lane < lane1 && lane < lanesOf.length; lane++) {
    const y = TOP + (lane - lane0) * down, { rank } = lanesOf[lane], isLate = late.has(rank);
    if (order.length > 1 && lane > lane0 && nodeOf(lane) !== nodeOf(lane - 1) && down * 8 > 6) { paint.fillStyle = colours.line; paint.fillRect(LEFT - 6, Math.round(y) - 1, 6, 1); }
    const middle = y + Math.max(0, down / 2) + 4;
    if (!isLate && (middle - said < 14 || (down < 11 && rank % 8))) continue;
    if (isLate && middle - said < 9) continue;
    said = middle;
    paint.fillStyle = isLate ? colours.bad : colours.muted;
    paint.fillText((isLate ? "▸ " : "") + `${down >= 11 || isLate ? words.rank : ""} ${rank}`, LEFT - 9, middle);
  }
  paint.textAlign = "left";
}

function drawEpisodes(paint, t0, t1, x, wide, tall) {
  const right = LEFT + wide;
  let free = -Infinity;
  for (const { since_s: since, said_s: said, taken_s: taken, cause, past } of episodes) {
    const begin = since ?? said, end = past ? taken : Math.max(taken, run.live ? run.at_s : lastRow);
    if (end < t0 || begin > t1) continue;
    const a = Math.max(LEFT, x(begin)), b = Math.min(right, Math.max(x(end), x(begin) + 2));
    paint.fillStyle = past ? colours.warn : colours.bad;
    paint.fillRect(a, TOP - 4, b - a, 3);
    const marked = b - paint.measureText(words.stalled).width, tone = paint.fillStyle;
    if (begin >= t0) paint.fillRect(Math.round(a), TOP - 4, 1.5, tall + 4);
    const mark = () => { if (marked > Math.max(a, free)) { paint.fillStyle = tone; paint.fillText(words.stalled, marked, 11); free = b + 8; } };
    if (said < t0 || said > t1) { mark(); continue; }
    const v = Math.round(x(said));
    paint.fillStyle = colours.ink;
    for (let y = TOP; y < TOP + tall; y += 6) paint.fillRect(v, y, 1, 3);
    const text = `▾ ${words.verdict}${cause ? `: ${cause}` : ""}`, wanted = paint.measureText(text).width;
    const left = Math.min(v - 3, right - wanted);
    if (left > free) { paint.fillText(text, left, 11); free = left + wanted + 8; }
    mark();
  }
}

const lowest = (values) => values.reduce((low, value) => Math.min(low, value), Infinity);
const highest = (values) => values.reduce((most, value) => Math.max(most, value), -Infinity);
const changes = ([, , , values]) => lowest(values).toPrecision(2) !== highest(values).toPrecision(2);

// What is flat, or has no room in the drawing, in words.
function listSeries() {
  const drawn = new Set(machine.lanes.filter(changes).slice(0, MAX_LANES)), left = machine.lanes.filter((lane) => !drawn.has(lane));
  $("more-series").hidden = !left.length;
  $("more-series").firstElementChild.textContent = `${words.more_series} (${left.length})`;
  $("more-series").lastElementChild.replaceChildren(...left.map((lane) => made("li", `${lane[0]}: ${changes(lane) ? `${amount(lowest(lane[3]))} – ` : ""}${measured(highest(lane[3]), lane[1])}`)));
}

function drawLane(paint, [name, unit, times, values], top, t0, t1, x, wide) {
  const high = LANE - 19, base = top + LANE - 4;
  let low = Math.min(0, lowest(values)), most = highest(values), first = 0, last = times.length;
  if (most <= low) most = low + 1;
  while (first < times.length && times[first] < t0) first++;
  while (last > first && times[last - 1] > t1) last--;
  first = Math.max(0, first - 1);
  last = Math.min(times.length, last + 1);
  paint.fillStyle = colours.line;
  paint.fillRect(LEFT, base, wide, 1);
  paint.save();
  paint.beginPath();
  paint.rect(LEFT, top, wide, LANE);
  paint.clip();
  paint.strokeStyle = colours.p2;
  paint.lineWidth = 1.5;
  paint.beginPath();
  const every = Math.max(1, Math.floor((last - first) / (2 * wide)));
  for (let n = first; n < last; n += every) { const y = base - ((values[n] - low) / (most - low)) * high; if (n === first) paint.moveTo(x(times[n]), y); else paint.lineTo(x(times[n]), y); }
  paint.stroke();
  paint.restore();
  paint.fillStyle = colours.muted;
  paint.fillText(`${name}: ${amount(low)} – ${measured(most, unit)}`, LEFT + 2, top + 10);
}

function pointed(event) {
  const box = time.getBoundingClientRect(), [t0, t1] = view(), wide = time.clientWidth - LEFT - RIGHT;
  const px = event.clientX - box.left, py = event.clientY - box.top;
  return { px, py, t: t0 + ((px - LEFT) / wide) * (t1 - t0), lane: Math.floor(lane0 + ((py - TOP) / plotHeight()) * laneCount()) };
}

function aboutTime({ t, lane, py }) {
  const known = py >= TOP && py < TOP + plotHeight() ? lanesOf[lane] : undefined;
  if (!known) return clock(t);
  const own = byRank.get(known.rank) || [];
  let low = 0, high = own.length;
  while (low < high) { const middle = (low + high) >> 1; if (own[middle][1] < t) low = middle + 1; else high = middle; }
  const row = own[low], parts = [`${words.rank} ${known.rank}`, clock(t)];
  if (row && row[1] - row[2] <= t) {
    const site = row[4] >= 0 && sites[row[4]] ? short(sites[row[4]]) : "", instead = site && row[5][0] === OTHER;
    for (let n = 0; n < Math.min(6, row[5].length); n += 2) parts.push(`${n === 0 && instead ? site : phases[row[5][n] % WAITS]}${row[5][n] >= WAITS ? ` (${words.waits})` : ""} ${row[5][n + 1]} %`);
    if (row[3]) parts.push(`${words.step} ${row[3].toLocaleString()}`);
    if (site && !instead) parts.push(site);
  } else {
    const column = seen.find((one) => one.at >= t);
    if (column && known.n >= 0 && known.n < column.codes.length) { const code = column.codes[known.n]; parts.push(code === TROUBLE ? words.trouble : code === NOTHING ? "–" : phases[code % WAITS] + (code >= WAITS ? ` (${words.waits})` : "")); }
  }
  return parts.join(" · ");
}

let waitingDraw = false;
function drawSoon() {
  if (waitingDraw) return;
  waitingDraw = true;
  requestAnimationFrame(() => { waitingDraw = false; drawTime(); });
}

function zoom(factor, t) {
  const [t0, t1] = view(), [first, last] = span(), middle = t ?? (t0 + t1) / 2;
  const a = Math.max(first, middle - (middle - t0) * factor), b = Math.min(last, middle + (t1 - middle) * factor);
  window0 = b - a >= last - first - 0.01 ? null : b - a < 0.5 ? window0 : [a, b];
  drawSoon();
}

function pan(by) {
  const [t0, t1] = view(), [first, last] = span(), moved = Math.max(first - t0, Math.min(last - t1, by));
  if (window0) { window0 = [t0 + moved, t1 + moved]; drawSoon(); }
}

function zoomLanes(factor, lane) {
  const middle = lane ?? (lane0 + lane1) / 2, count = Math.min(lanesOf.length, Math.max(4, Math.round(laneCount() * factor)));
  lane0 = Math.max(0, Math.min(lanesOf.length - count, Math.round(middle - (middle - lane0) * (count / laneCount()))));
  lane1 = lane0 + count;
  drawSoon();
}

function panLanes(by) {
  const moved = Math.max(-lane0, Math.min(lanesOf.length - lane1, Math.round(by)));
  lane0 += moved; lane1 += moved;
  drawSoon();
}

function showAll() { window0 = null; lane0 = 0; lane1 = lanesOf.length; drawSoon(); }

time.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  const here = pointed(event), factor = event.deltaY > 0 ? 1.25 : 0.8;
  if (event.shiftKey) zoomLanes(factor, here.lane); else zoom(factor, here.t);
}, { passive: false });
time.addEventListener("pointerdown", (event) => { dragged = { x: event.clientX, y: event.clientY, moved: false }; time.setPointerCapture(event.pointerId); });
time.addEventListener("pointermove", (event) => {
  const here = pointed(event);
  hover = here.px >= LEFT ? here.px : null;
  $("time-said").textContent = hover === null ? "" : aboutTime(here);
  if (dragged && (dragged.moved || Math.abs(event.clientX - dragged.x) + Math.abs(event.clientY - dragged.y) > 4)) {
    const [t0, t1] = view(), lanes = ((dragged.y - event.clientY) / plotHeight()) * laneCount();
    dragged.moved = true;
    pan(((dragged.x - event.clientX) / (time.clientWidth - LEFT - RIGHT)) * (t1 - t0));
    dragged.x = event.clientX;
    if (Math.abs(lanes) >= 1) { panLanes(lanes); dragged.y = event.clientY; }
  }
  drawSoon();
});
time.addEventListener("pointerup", (event) => {
  const here = pointed(event), clicked = dragged && !dragged.moved;
  dragged = null;
  if (clicked && here.py >= TOP && here.py < TOP + plotHeight() && lanesOf[here.lane]) openRank(lanesOf[here.lane].rank);
});
time.addEventListener("pointerleave", () => { hover = null; drawSoon(); });
time.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const [t0, t1] = view(), by = (t1 - t0) / 8;
  const moves = { ArrowLeft: () => pan(-by), ArrowRight: () => pan(by), ArrowUp: () => panLanes(-Math.max(1, laneCount() / 8)), ArrowDown: () => panLanes(Math.max(1, laneCount() / 8)), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), 0: showAll };
  if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
});
$("zoom-in").addEventListener("click", () => zoom(0.6));
$("zoom-out").addEventListener("click", () => zoom(1.6));
$("fewer").addEventListener("click", () => zoomLanes(0.5));
$("more-ranks").addEventListener("click", () => zoomLanes(2));
$("all").addEventListener("click", showAll);

function swatch(code) {
  const sign = made("canvas"), { paint } = fitted(sign, 15, 15);
  paint.fillStyle = code === TROUBLE ? colours.trouble : code >= WAITS ? colours.wait : colours[`p${code}`];
  paint.fillRect(0, 0, 15, 15);
  if (code >= WAITS && code < TROUBLE) { paint.strokeStyle = colours["wait-line"]; paint.beginPath(); for (let n = -15; n < 30; n += 4) { paint.moveTo(n, 15); paint.lineTo(n + 15, 0); } paint.stroke(); }
  return sign;
}

// Work without a name of its own is called by its lines, the most frequent first.
function otherSites() {
  const counts = new Map();
  for (const row of rows) if (row[5][0] === OTHER && row[4] >= 0 && sites[row[4]]) counts.set(row[4], (counts.get(row[4]) || 0) + row[2]);
  const known = [...counts].sort((a, b) => b[1] - a[1]).map(([site]) => short(sites[site]));
  return known.length ? known.slice(0, 2).join(", ") + (known.length > 2 ? ", …" : "") : phases[OTHER];
}

function drawTimeLegend() {
  const found = new Set();
  for (const row of rows) for (let n = 0; n < row[5].length; n += 2) found.add(row[5][n] >= WAITS ? WAITS : row[5][n]);
  for (const { codes } of seen.slice(-60)) for (const code of codes) if (code !== NOTHING) found.add(code === TROUBLE ? code : code >= WAITS ? WAITS : code);
  const items = [...found].sort((a, b) => a - b).map((code) => { const item = made("li"); item.append(swatch(code), code === TROUBLE ? words.trouble : code === WAITS ? words.waits : code === OTHER ? otherSites() : phases[code]); return item; });
  if (!rows.length && generation === 0) items.push(made("li", words.no_series, "muted"));
  $("time-legend").replaceChildren(...items);
}
