"use strict";
(() => {
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const { jobs, words } = JSON.parse(document.getElementById("data").textContent);
  jobs.forEach((groups, job) => { if (groups.length) timeline(groups, job ? `-${job + 1}` : ""); });

  function timeline(groups, ofJob) {
    const part = (name) => document.getElementById(name + ofJob);
    const chart = part("chart"), holder = part("rows"), drawing = part("drawing"), said = part("chart-said");
    const picker = part("group"), alike = part("alike"), find = part("find");
    const HEAD = 26, NAME = 128, FOOT = 6, MAX_HEIGHT = 430;
    let rows = [], columns = [], group = null, cursor = null, height = 24;

    const ranges = (ranks) => {
      const parts = [];
      for (let i = 0; i < ranks.length; ) {
        let j = i;
        while (j + 1 < ranks.length && ranks[j + 1] === ranks[j] + 1) j++;
        if (j - i >= 2) parts.push(`${ranks[i]}-${ranks[j]}`);
        else for (let k = i; k <= j; k++) parts.push(String(ranks[k]));
        i = j + 1;
      }
      return parts.join(", ");
    };
    const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

    function fold() {
      const kinds = new Map();
      for (const [rank, entered, done, state, text] of group.rows) {
        const odd = group.odd[rank];
        const key = alike.checked ? JSON.stringify([entered, done, state, text, odd]) : rank;
        if (!kinds.has(key)) kinds.set(key, { ranks: [], entered, done, state, text: group.texts[text] || "", odd: odd || {}, silent: false });
        kinds.get(key).ranks.push(rank);
      }
      rows = [...kinds.values()];
      if (group.silent.length) {
        const silent = alike.checked ? [group.silent] : group.silent.map((rank) => [rank]);
        for (const ranks of silent) rows.push({ ranks, entered: -1, done: -1, state: "missing", text: words.unknown, odd: {}, silent: true });
      }
      const late = (row) => (row.state === "laggard" ? 0 : 1);
      rows.sort((a, b) => (alike.checked ? late(a) - late(b) || b.ranks.length - a.ranks.length : 0) || a.ranks[0] - b.ranks[0]);
    }

    function kind(row, position) {
      if (row.silent) return "unknown";
      if (position <= row.done) return "done";
      if (position > row.entered) return "never";
      return position === row.done + 1 || position === group.stall ? "pending" : "behind";
    }

    function fit() {
      const width = chart.clientWidth;
      const note = width > 760 ? 250 : 8;
      const name = width > 480 ? NAME : 84;
      const room = width - name - note;
      const most = Math.max(4, Math.floor(room / 15));
      let shown = group.columns;
      if (shown.length > most) {
        const middle = Math.max(0, shown.indexOf(group.stall));
        const first = Math.min(Math.max(0, middle - most + 4), shown.length - most);
        shown = shown.slice(first, first + most);
      }
      columns = shown;
      return { width, name, note, cell: Math.min(30, Math.max(13, room / Math.max(1, shown.length))) };
    }

    const make = (tag, attributes, text) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const key in attributes) element.setAttribute(key, attributes[key]);
      if (text !== undefined) element.textContent = text;
      return element;
    };

    // What is cut has all of it in its tip.
    function cuttable(shown, most, attributes, whole = shown) {
      const text = make("text", attributes, cut(shown, most));
      text.append(make("title", {}, cut(whole, 400)));
      return text;
    }

    function draw() {
      const { width, name, note, cell } = fit();
      const total = HEAD + rows.length * height + FOOT;
      const tall = matchMedia("print").matches ? total : Math.min(total, MAX_HEIGHT);
      holder.style.height = `${total}px`;
      drawing.setAttribute("height", tall);
      drawing.setAttribute("viewBox", `0 0 ${width} ${tall}`);
      const parts = [];
      const scroll = chart.scrollTop;
      const first = Math.max(0, Math.floor((scroll - 2) / height));
      const last = Math.min(rows.length, Math.ceil((scroll + tall - HEAD) / height) + 1);
      const stall = columns.indexOf(group.stall);
      if (stall >= 0) parts.push(make("rect", { class: "column", x: name + stall * cell, y: 0, width: cell, height: tall }));
      for (let n = first; n < last; n++) drawRow(parts, rows[n], n, HEAD + n * height - scroll, name, note, cell, width);
      parts.push(make("rect", { class: "top", x: 0, y: 0, width, height: HEAD - 3 }));
      drawHead(parts, name, cell, stall, tall, width);
      drawing.replaceChildren(...parts);
    }

    function drawHead(parts, name, cell, stall, tall, width) {
      const gaps = columns.map((position, c) => c > 0 && columns[c - 1] !== position - 1);
      gaps.forEach((gap, c) => {
        const x = name + c * cell;
        if (gap) parts.push(make("line", { class: "break", x1: x, x2: x, y1: HEAD - 6, y2: tall }));
      });
      const all = columns.map((_, c) => c);
      const wanted = [stall, ...all.filter((c) => gaps[c]), ...all.filter((c) => columns[c] % 5 === 0), 0].filter((c) => c >= 0);
      const most = String(columns[columns.length - 1]).length * 7 + 12, placed = [];
      for (const c of wanted) {
        if (placed.some((other) => Math.abs(other - c) * cell < most)) continue;
        placed.push(c);
        parts.push(make("text", { class: c === stall ? "head stall" : "head", x: Math.min(name + (c + 0.5) * cell, width - most / 2), y: 16 }, String(columns[c])));
      }
    }

    function drawRow(parts, row, n, y, name, note, cell, width) {
      const late = row.state === "laggard";
      if (late) parts.push(make("rect", { class: "stripe", x: 0, y, width, height }));
      const label = (row.ranks.length > 1 ? words.ranks : words.rank) + " " + ranges(row.ranks);
      const most = name > 100 ? 18 : 11;
      const named = label.length > most && row.ranks.length > 1 ? `${row.ranks.length} ${words.ranks}` : label;
      parts.push(cuttable(named, most, { class: late ? "name late" : "name", x: name - 10, y: y + height / 2 + 4 }, label));
      const pad = 1.5, w = cell - 2 * pad, h = height - 6;
      columns.forEach((position, c) => {
        const what = kind(row, position);
        const missing = what === "never" && position === group.stall ? " missing" : "";
        const x = name + c * cell + pad;
        const inset = what === "never" || what === "unknown" ? 0.75 : 0;
        parts.push(make("rect", { class: what + missing, x: x + inset, y: y + 3 + inset, width: w - 2 * inset, height: h - 2 * inset, rx: 2.5 }));
        if (row.odd[position]) parts.push(make("text", { class: "odd", x: x + w / 2, y: y + height / 2 + 4 }, "≠"));
        if (cursor && cursor.row === n && cursor.column === c) parts.push(make("rect", { class: "cursor", x: x - 1, y: y + 2, width: w + 2, height: h + 2, rx: 3 }));
      });
      if (note > 100) {
        const about = (late ? words.laggard + (row.text ? " · " : "") : "") + row.text;
        parts.push(cuttable(about, Math.floor((width - name - columns.length * cell - 16) / 6.6), { class: late ? "late" : "faint", x: name + columns.length * cell + 12, y: y + height / 2 + 4 }));
      }
    }

    function tell() {
      const row = rows[cursor.row], position = columns[cursor.column];
      if (!row || position === undefined) return;
      const call = row.odd[position] ? `${row.odd[position]} (${words.different})` : group.calls[position] || "";
      const parts = [`${row.ranks.length > 1 ? words.ranks : words.rank} ${cut(ranges(row.ranks), 80)}`, `${words.position} ${position}`, call, words[kind(row, position)], row.text];
      said.textContent = parts.filter(Boolean).join(" · ");
    }

    function show(row, column) {
      cursor = { row: Math.min(Math.max(0, row), rows.length - 1), column: Math.min(Math.max(0, column), columns.length - 1) };
      const y = cursor.row * height, seen = chart.clientHeight - HEAD - FOOT;
      if (y < chart.scrollTop) chart.scrollTop = y;
      else if (y + height > chart.scrollTop + seen) chart.scrollTop = y + height - seen;
      draw();
      tell();
    }

    function pick() {
      group = groups[Number(picker.value) || 0];
      fold();
      height = rows.length > 60 ? 20 : 24;
      cursor = null;
      said.textContent = "";
      chart.scrollTop = 0;
      draw();
    }

    function stackOf(rank) {
      for (const element of chart.closest(".job").querySelectorAll("details.stack")) {
        for (const part of element.dataset.ranks.split(",")) {
          const [low, high] = part.trim().split("-").map(Number);
          if (part.trim() && rank >= low && rank <= (high === undefined ? low : high)) return element;
        }
      }
      return null;
    }

    chart.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.floor(chart.clientHeight / height) - 2);
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-page, 0], PageDown: [page, 0], Home: [-1e9, 0], End: [1e9, 0] };
      if (event.key === "Enter" && cursor) {
        const stack = stackOf(rows[cursor.row].ranks[0]);
        if (stack) { stack.open = true; stack.querySelector("summary").focus(); stack.scrollIntoView({ block: "center" }); }
      } else if (moves[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        const start = Math.max(0, columns.indexOf(group.stall));
        if (cursor) show(cursor.row + moves[event.key][0], cursor.column + moves[event.key][1]);
        else show(0, start);
      }
    });
    chart.addEventListener("click", (event) => {
      const box = drawing.getBoundingClientRect(), { name, cell } = fit();
      const column = Math.floor((event.clientX - box.left - name) / cell);
      const row = Math.floor((event.clientY - box.top - HEAD + chart.scrollTop) / height);
      if (row >= 0 && row < rows.length) show(row, column);
    });
    find.addEventListener("input", () => {
      if (find.value === "") return;
      const rank = Number(find.value);
      const row = rows.findIndex((known) => known.ranks.includes(rank));
      if (row >= 0) show(row, Math.max(0, columns.indexOf(group.stall)));
      else said.textContent = `${words.rank} ${rank}: ${words.unknown}`;
    });
    let waiting = false;
    const later = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    };
    chart.addEventListener("scroll", later, { passive: true });
    new ResizeObserver(later).observe(chart);
    addEventListener("beforeprint", draw);
    addEventListener("afterprint", draw);
    picker.addEventListener("change", pick);
    alike.addEventListener("change", pick);
    pick();
  }
})();
