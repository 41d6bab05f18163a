"use strict";
// Tables are whole without this: it adds sorting by any column, and a filter where there are many rows. And it
// sees what has to be rolled sideways: the keyboard stops at that alone, and its rows are named in one column, which stays.
(() => {
  // A number, alone or with what belongs to it: "27.2 ± 1.2 †", "−1.6 to −0.7", "12 (2 distinct)", "3 of 5". Not the
  // count of a state: "2 failed, 1 timeout".
  const NUMBER = /^[~<>≤≥]?\s*([+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.,])(?!\s+(?!to\b|of\b)[a-z])/i;

  // As it is typed on a keyboard.
  const typed = (text) => text.trim().replace(/[−–]/g, "-").replace(/\u00a0/g, " ");

  // A cell as what it sorts by: its first number, or its words; words come after all numbers.
  const key = (cell) => {
    const text = typed(cell.textContent);
    const found = NUMBER.exec(text);
    return found ? Number(found[1].replace(/,/g, "")) : text;
  };

  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
    return typeof a === "number" ? -1 : 1;
  };

  const sortable = (table) => {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2) return;
    const given = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { null: "ascending", ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        const rows = [...given];
        if (next) {
          head.setAttribute("aria-sort", next);
          const of = new Map(given.map((row) => [row, key(row.cells[column])]));
          const sign = next === "ascending" ? 1 : -1;
          // Words stay last in both directions: a state is no small number.
          rows.sort((a, b) => (typeof of.get(a) === typeof of.get(b) ? sign : 1) * compare(of.get(a), of.get(b)));
        }
        body.append(...rows);
      });
    });
  };

  const filtered = (box) => {
    const rows = [...box.querySelector("tbody").rows];
    const line = document.createElement("div");
    line.className = "filter";
    const label = document.createElement("label");
    label.textContent = "Filter rows ";
    const input = document.createElement("input");
    input.type = "search";
    input.setAttribute("aria-label", `Filter rows: ${box.dataset.filtered}`);
    label.append(input);
    const count = document.createElement("output");
    const say = (shown) => { count.textContent = `${shown} of ${rows.length} rows`; };
    input.addEventListener("input", () => {
      const words = typed(input.value).toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = [...row.cells].map((cell) => typed(cell.textContent)).join("\n").toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        if (!row.hidden) shown += 1;
      }
      say(shown);
    });
    say(rows.length);
    line.append(label, count);
    box.prepend(line);
  };

  // Columns that not everybody needs, behind a button.
  const hideable = (box) => {
    const columns = box.querySelectorAll("thead .optional").length;
    if (!columns) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "more";
    const draw = (hidden) => {
      box.classList.toggle("optional-hidden", hidden);
      button.textContent = hidden ? `Show ${columns} more ${columns > 1 ? "columns" : "column"}` : "Show fewer columns";
      button.setAttribute("aria-expanded", String(!hidden));
    };
    draw(true);
    button.addEventListener("click", () => { draw(!box.classList.contains("optional-hidden")); fitted(); });
    box.append(button);
  };

  const boxes = [...document.querySelectorAll(".scroll")];
  const isRolled = (box) => box.scrollWidth > box.clientWidth;

  const fitted = () => {
    boxes.forEach((box) => box.parentElement.classList.remove("rolled"));
    const rolled = boxes.map(isRolled);
    boxes.forEach((box, number) => box.parentElement.classList.toggle("rolled", rolled[number]));
    const still = boxes.map(isRolled);
    boxes.forEach((box, number) => {
      if (still[number]) box.tabIndex = 0;
      else if (box !== document.activeElement) box.removeAttribute("tabindex");
    });
  };

  // What is folded opens where a link leads into it, and on paper.
  const folded = [...document.querySelectorAll("details")];
  const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
  const opened = () => {
    const target = document.getElementById(decoded(location.hash.slice(1)));
    const box = target?.closest("details");
    if (box) { box.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", opened);
  document.addEventListener("click", (event) => { if (event.target.closest('a[href^="#"]')) setTimeout(opened); });
  addEventListener("beforeprint", () => folded.forEach((box) => { box.open = true; }));
  folded.forEach((box) => box.addEventListener("toggle", () => fitted()));

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const tell = (event) => {
    const mark = event.target.closest?.("[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  };
  addEventListener("pointermove", tell);
  addEventListener("pointerdown", tell);

  // A click on a row marks its cells in every table and figure; a link to them can be shared.
  const about = (row) => JSON.parse(row.dataset.cells);
  let chosen = "[]";
  const mark = (wanted) => {
    const cells = new Set(wanted);
    chosen = JSON.stringify(wanted);
    for (const row of document.querySelectorAll("tr[data-cells]")) {
      row.classList.toggle("marked", about(row).some((cell) => cells.has(cell)));
    }
    for (const one of document.querySelectorAll("[data-cell]")) {
      one.classList.toggle("marked", cells.has(one.dataset.cell));
      one.classList.toggle("other", cells.size > 0 && !cells.has(one.dataset.cell));
    }
  };
  const linked = () => {
    const found = /^#cell=(.+)$/.exec(location.hash);
    const wanted = found ? [decoded(found[1])] : [];
    const rows = [...document.querySelectorAll("tr[data-cells]")].filter((row) => about(row).includes(wanted[0]));
    mark(rows.length ? about(rows[0]) : wanted);
    rows[0]?.scrollIntoView({ block: "center" });
  };
  document.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-cells]");
    if (!row || event.target.closest("a, button")) return;
    const cells = JSON.stringify(about(row)) === chosen ? [] : about(row);
    mark(cells);
    history.replaceState(null, "", cells.length ? `#cell=${encodeURIComponent(cells[0])}` : " ");
  });
  addEventListener("hashchange", linked);

  for (const box of document.querySelectorAll(".table")) {
    sortable(box.querySelector("table"));
    if ("filtered" in box.dataset) filtered(box);
    hideable(box);
  }
  fitted();
  opened();
  if (location.hash.startsWith("#cell=")) linked();
  addEventListener("resize", fitted);
})();
