const $ = (id) => document.getElementById(id);
const { words, states, phases, other: OTHER } = JSON.parse($("data").textContent);
const root = document.documentElement;
const token = new URLSearchParams(location.search).get("token") || "";
const WAITS = phases.length, TROUBLE = 2 * WAITS, NOTHING = TROUBLE + 1;
const numberOf = Object.fromEntries(states.map((state, at) => [state.word, at]));
const NAMES = ["page", "card", "ink", "muted", "line", "link", "bad", "bad-weak", "warn", "good", "cell", "busy", "waiting", "empty", "wait", "wait-line", "trouble", ...phases.map((_, at) => `p${at}`)];
const colours = {};
let pixels = new Uint32Array(0), hatch = 0;

function learnColours() {
  const style = getComputedStyle(root);
  for (const name of NAMES) colours[name] = style.getPropertyValue(`--${name}`).trim();
  const packed = (name) => { const n = parseInt(colours[name].slice(1), 16); return (0xff000000 | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0; };
  pixels = new Uint32Array(NOTHING + 1);
  phases.forEach((_, at) => { pixels[at] = packed(`p${at}`); pixels[at + WAITS] = packed("wait"); });
  pixels[TROUBLE] = packed("trouble");
  pixels[NOTHING] = packed("empty");
  hatch = packed("wait-line");
}

function made(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function fitted(canvas, width, height) {
  const scale = Math.min(3, devicePixelRatio || 1);
  const w = Math.round(width * scale), h = Math.round(height * scale);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  canvas.style.height = `${height}px`;
  const paint = canvas.getContext("2d", { alpha: false });
  paint.setTransform(scale, 0, 0, scale, 0, 0);
  return { paint, scale };
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const ofStep = (s) => (s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(2)} s`);
// As report/layout/durations.py says it.
const duration = (s) => {
  const whole = Math.floor(s + 0.5), minutes = Math.floor(whole / 60);
  if (whole < 120) return words.seconds.replace("{}", whole);
  if (whole < 7200) return words.minutes.replace("{}", minutes);
  return words.hours.replace("{}", `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}`);
};
const clock = (s) => new Date(s * 1000).toLocaleTimeString(document.documentElement.lang, { hour12: false });
const short = (place) => place.slice(place.split(" ")[0].lastIndexOf("/") + 1);
const measured = (value, unit) => `${amount(value)}${unit && !amount(value).endsWith(" ") ? (/[a-zA-Z]$/.test(amount(value)) ? "" : " ") + unit : ""}`;
const amount = (value) => {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) if (Math.abs(value) >= size) return `${(value / (unit === "k" ? 1e3 : size)).toFixed(1)} ${unit}`;
  return String(Math.abs(value) < 1 ? Number(value.toPrecision(2)) : Math.round(value * 100) / 100);
};

async function ask(path) {
  const stop = new AbortController();
  const limit = setTimeout(() => stop.abort(), 20000);
  try {
    const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store", credentials: "omit", redirect: "error", signal: stop.signal });
    if (answer.status === 403) throw new Error("refused");
    if (!answer.ok) throw new Error("gone");
    return await answer.json();
  } finally { clearTimeout(limit); }
}
