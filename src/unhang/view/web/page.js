let failures = 0, polls = 0, rounds = 0, machineNode = 0;
const TONES = { hang: "stalled", crash: "stalled", slow: "waiting", misconfigured: "waiting" };

function showState(told) {
  run = told;
  root.dataset.at = told.at_s || 0;
  $("folder").textContent = told.folder;
  if (!told.ranks) {
    $("headline").textContent = told.because || words.no_run;
    return;
  }
  late = new Set(told.late);
  const verdict = told.verdict, headline = verdict ? verdict.claim : told.condition.text;
  document.title = `${headline} – unhang`;
  setText("headline", headline);
  setText("rest", verdict ? verdict.rest : "");
  setText("about", verdict ? verdict.about : "");
  setText("condition", verdict ? told.condition.text : "");
  $("word").hidden = !verdict;
  setText("word", verdict ? verdict.word : "");
  $("hero").className = `hero ${verdict && TONES[verdict.status] || told.condition.tone}`;
  $("waits").hidden = !told.waits.length;
  told.waits.forEach(([who, where], n) => { setText(n ? "awaited" : "waiters", who); setText(n ? "awaited-at" : "waiters-at", where); });
  setText("left", told.condition.left);
  $("left").classList.toggle("hurry", told.condition.hurry);
  setText("command", told.command);
  $("command").title = told.command;
  setText("now-title", told.live ? words.now_title : words.last_title);
  setText("facts", told.facts.join("   ·   "));
  $("report").hidden = !told.report;
  $("report").href = `report?token=${encodeURIComponent(token)}`;
  $("history").href = `history?token=${encodeURIComponent(token)}`;
  showGroups(told);
  showSplit(told);
  setText("pace", told.pace ? told.pace[0] : "");
  setText("marked", told.marked);
  learnOrder();
  laneOrder();
  remember();
  drawLegend();
  if (!told.ranks.rank.length) setText("grid-said", words.no_rank);
  drawGrid();
  if (chosen >= 0) setText("grid-said", about(chosen));
  drawTimeLegend();
  drawSoon();
}

function setText(id, text) { if ($(id).textContent !== text) $(id).textContent = text; }

function showGroups(told) {
  $("groups").replaceChildren(...told.groups.map((cells) => {
    const row = made("tr");
    cells.forEach((cell, n) => row.append(made("td", cell, n === 1 || n === 2 ? "n" : "")));
    return row;
  }));
  setText("groups-more", told.more_groups ? `+ ${told.more_groups} · ${words.more}` : "");
}

function showSplit(told) {
  const counts = new Map(), total = told.ranks.rank.length;
  const codes = new Map();
  for (let n = 0; n < total; n++) {
    const waits = states[at("state", n)].word === "waiting", name = (doing(n) || short(run.places[at("place", n)])) + (waits ? ` (${words.waits})` : "");
    codes.set(name, at("phase", n) + (waits ? WAITS : 0));
    counts.set(name, (counts.get(name) || 0) + 1);
  }
  const sorted = [...counts].sort((a, b) => b[1] - a[1]);
  $("split").replaceChildren(...sorted.map(([name, count]) => {
    const part = made("span"), code = codes.get(name);
    part.style.width = `${(100 * count) / total}%`;
    part.style.background = code >= WAITS ? `repeating-linear-gradient(135deg, ${colours.wait} 0 4px, ${colours["wait-line"]} 4px 5px)` : colours[`p${code}`];
    return part;
  }));
  $("split-legend").replaceChildren(...sorted.slice(0, 6).map(([name, count]) => {
    const item = made("li");
    item.append(swatch(codes.get(name)), `${name}: ${count.toLocaleString()}`);
    return item;
  }));
}

async function askTimeline() {
  for (let more = true; more; ) {
    const answer = await ask(`timeline.json?generation=${generation}&rows=${rows.length}&sites=${sites.length}`);
    takeRows(answer);
    more = answer.more;
  }
}

async function askMachine() {
  const told = await ask(`machine.json?node=${machineNode}`);
  const names = told.nodes.join("\n");
  if ($("machine").dataset.names !== names) {
    $("machine").dataset.names = names;
    $("machine").replaceChildren(...told.nodes.map((name, n) => { const option = made("option", name); option.value = n; return option; }));
    $("machine-label").hidden = told.nodes.length < 1;
  }
  machine = told;
  listSeries();
}

async function poll() {
  try {
    showState(await ask("state.json"));
    if (opened >= 0 && run.live && polls % 2 === 0) askRank();
    failures = 0;
    polls++;
    $("gone").hidden = true;
  } catch (error) {
    failures++;
    setText("gone", error.message === "refused" ? words.refused : words.gone);
    if (failures > 1 || error.message === "refused") $("gone").hidden = false;
  }
  setTimeout(poll, failures ? 2000 : run.live ? 1000 : 5000);
}

// Beside the states, never before them: a long series takes a moment.
async function follow() {
  let wait = 500;
  if (run && run.ranks) {
    wait = run.live ? 3000 : 20000;
    try {
      await askTimeline();
      drawTimeLegend();
      if (rounds++ % 3 === 0) await askMachine();
      drawSoon();
    } catch { wait = 3000; /* the banner says it */ }
  }
  setTimeout(follow, wait);
}

function recolour() {
  learnColours();
  if (!run || !run.ranks) return;
  drawLegend(); drawGrid(); drawTimeLegend(); showSplit(run); drawSoon();
}

$("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  recolour();
});
$("machine").addEventListener("change", async () => { machineNode = Number($("machine").value); try { await askMachine(); drawSoon(); } catch { /* the next poll says it */ } });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
let waitingFit = false;
new ResizeObserver(() => {
  if (waitingFit) return;
  waitingFit = true;
  requestAnimationFrame(() => { waitingFit = false; drawGrid(); drawTime(); });
}).observe(document.querySelector("main"));
learnColours();
poll();
follow();
