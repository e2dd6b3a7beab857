// One rank: what it does, its stack, its last lines. Everything is set as text.
let opened = -1, asking = false;

function pairs(list) {
  const all = made("dl");
  for (const [name, value] of list) if (value !== "") all.append(made("dt", name), made("dd", value));
  return all;
}

function facts(n, told) {
  if (n === undefined) return pairs([]);
  const waits = at("waits_s", n), mean = at("step_s", n);
  return pairs([
    [words.node, run.nodes[at("node", n)] ?? ""],
    [words.does, states[at("state", n)].text + (waits >= 1 ? ` ${duration(waits)}` : "")],
    [words.phase, doing(n)],
    [words.step, at("step", n) >= 0 ? at("step", n).toLocaleString() : ""],
    [words.a_step, mean > 0 ? ofStep(mean) : ""],
    [words.stands_at, at("place", n) >= 0 ? run.places[at("place", n)] : ""],
    [words.positions, told.groups.map(([name, sent, done]) => `${name} ${done}/${sent}`).join(", ")],
    ["", late.has(at("rank", n)) ? words.late : ""],
  ]);
}

function framed(frames) {
  const list = made("ol", undefined, "frames");
  for (const { file, line, function: name, own } of frames) list.append(made("li", `${name}  ${file}:${line}`, own ? "own" : ""));
  return list;
}

function unfolding(title, body, open) {
  const part = made("details");
  part.open = open;
  part.append(made("summary", title), body);
  return part;
}

function showRank(told) {
  const parts = [facts(places.get(told.rank), told)], before = $("one-body").dataset.rank === String(told.rank);
  const was = before ? [...$("one-body").querySelectorAll("details")].map((part) => part.open) : [];
  if (told.now.length) parts.push(unfolding(words.now_stack, framed(told.now), true));
  if (told.look) parts.push(unfolding(words.look_stack, made("pre", told.look), true));
  if (!told.now.length && !told.look) parts.push(made("p", words.no_stack, "muted"));
  for (const { name, lines } of told.logs) if (lines.length) parts.push(unfolding(`${words.log}: ${name}`, made("pre", lines.join("\n")), true));
  if (!told.logs.length) parts.push(made("p", words.no_log, "muted"));
  let fold = 0;
  for (const part of parts) if (part.tagName === "DETAILS" && fold < was.length) part.open = was[fold++];
  const text = JSON.stringify(told) + (run ? about2(told.rank) : "");
  if (before && $("one-body").dataset.text === text) return; // a reader may have selected something
  $("one-title").textContent = `${words.rank} ${told.rank}`;
  $("one-body").dataset.rank = told.rank;
  $("one-body").dataset.text = text;
  const scrolled = [...$("one-body").querySelectorAll("pre, .frames")].map((part) => part.scrollTop);
  $("one-body").replaceChildren(...parts);
  $("one-body").querySelectorAll("pre, .frames").forEach((part, n) => { part.scrollTop = before && n < scrolled.length ? scrolled[n] : part.tagName === "PRE" && part.parentElement.querySelector("summary").textContent.startsWith(words.log) ? part.scrollHeight : 0; });
}

const about2 = (rank) => { const n = places.get(rank); return n === undefined ? "" : about(n); };

async function askRank() {
  if (opened < 0 || asking) return;
  asking = true;
  const wanted = opened;
  try {
    const told = await ask(`rank.json?rank=${wanted}`);
    if (wanted === opened) showRank(told);
  } catch { /* the banner says it */ } finally { asking = false; }
  if (wanted !== opened) askRank();
}

function openRank(rank) {
  const fresh = opened < 0;
  opened = rank;
  $("one").hidden = false;
  $("pair").classList.add("open");
  const n = places.get(rank);
  if (n !== undefined) choose(n);
  if (fresh) drawGrid();
  askRank();
}

$("one-close").addEventListener("click", () => {
  opened = -1;
  $("one").hidden = true;
  $("pair").classList.remove("open");
  choose(-1);
  grid.focus();
});
