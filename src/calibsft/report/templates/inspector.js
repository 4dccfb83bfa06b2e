"use strict";
// Reads the packed responses of this page and shows them. Whatever a model wrote reaches the page as text nodes only.
(() => {
  const ROW_HEIGHT = 34; // as in inspector.css
  const EXTRA_ROWS = 10;
  const BINS = 20;
  const KEPT_CHUNKS = 8;
  const DETAIL_MARGIN = 60;
  const VERDICTS = [
    { mark: "✗", word: "incorrect", name: "wrong" },
    { mark: "✓", word: "correct", name: "right" },
    { mark: "·", word: "not graded", name: "ungraded" },
  ];
  const WRONG = 0, RIGHT = 1;
  const TOKEN_ROLES = ["untrained", "reasoning", "confidence"];
  const TAGS = /(<\/?(?:think|answer|confidence)>)/;

  const find = (id) => document.getElementById(id);
  const chunks = new Map();
  let index, responses, questions, firstResponse, visible, selected = null, opened = 0, drawPlanned = false;

  // ---- packed data

  async function unpack(element) {
    const text = atob(element.textContent.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function chunk(number) {
    const found = chunks.get(number) ?? unpack(find(`responses-${number}`));
    chunks.delete(number);
    chunks.set(number, found); // the most recently used last
    if (chunks.size > KEPT_CHUNKS) chunks.delete(chunks.keys().next().value);
    return found;
  }

  function firstOfEachQuestion() {
    const first = new Array(questions.id.length + 1).fill(responses.question.length);
    for (let row = responses.question.length - 1; row >= 0; row--) first[responses.question[row]] = row;
    return first;
  }

  // ---- small helpers

  function make(tag, className, text) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function option(value, text) {
    const element = make("option", "", text);
    element.value = value;
    return element;
  }

  const count = (number) => number.toLocaleString("en");
  const share = (part, all) => (all ? `${((100 * part) / all).toFixed(1)} %` : "–");
  const stated = (row) => (responses.confidence[row] === null ? "–" : responses.confidence[row].toFixed(2));

  // ---- filters

  function readFilters() {
    const number = (id, otherwise) => {
      const value = Number.parseFloat(find(id).value);
      return Number.isNaN(value) ? otherwise : value;
    };
    return {
      origin: find("filter-origin").value,
      benchmark: find("filter-benchmark").value,
      verdict: find("filter-verdict").value,
      low: number("filter-low", 0),
      high: number("filter-high", 1),
      text: find("filter-text").value.trim().toLowerCase(),
      order: find("filter-order").value,
    };
  }

  function matches(row, filters) {
    const question = responses.question[row], confidence = responses.confidence[row];
    if (filters.origin !== "" && responses.origin[row] !== Number(filters.origin)) return false;
    if (filters.benchmark !== "" && questions.benchmark[question] !== filters.benchmark) return false;
    if (filters.verdict === "unreadable") {
      if (confidence !== null) return false;
    } else {
      if (filters.verdict !== "" && responses.verdict[row] !== Number(filters.verdict)) return false;
      const narrowed = filters.low > 0 || filters.high < 1;
      if (narrowed && (confidence === null || confidence < filters.low || confidence > filters.high)) return false;
    }
    return filters.text === "" || [questions.id[question], questions.title[question], responses.answer[row]].some(
      (text) => text.toLowerCase().includes(filters.text),
    );
  }

  function sortRows(rows, order) {
    if (order === "") return rows;
    const sign = order === "falling" ? -1 : 1;
    const known = rows.filter((row) => responses.confidence[row] !== null);
    known.sort((a, b) => sign * (responses.confidence[a] - responses.confidence[b]) || a - b);
    return known.concat(rows.filter((row) => responses.confidence[row] === null));
  }

  function applyFilters() {
    const filters = readFilters();
    const rows = [];
    for (let row = 0; row < responses.question.length; row++) if (matches(row, filters)) rows.push(row);
    visible = sortRows(rows, filters.order);
    find("list").scrollTop = 0;
    find("list-space").style.height = `${visible.length * ROW_HEIGHT}px`;
    showCounts();
    drawHistogram();
    drawList();
  }

  function showCounts() {
    let right = 0, graded = 0, sum = 0, readable = 0;
    for (const row of visible) {
      if (responses.verdict[row] <= RIGHT) graded++;
      if (responses.verdict[row] === RIGHT) right++;
      if (responses.confidence[row] !== null) { sum += responses.confidence[row]; readable++; }
    }
    const mean = readable ? (sum / readable).toFixed(2) : "–";
    find("shown-count").textContent = `${count(visible.length)} of ${count(responses.question.length)} responses`;
    find("shown-facts").textContent = `${share(right, graded)} correct, mean confidence ${mean}`;
  }

  function drawHistogram() {
    const right = new Array(BINS).fill(0), wrong = new Array(BINS).fill(0);
    for (const row of visible) {
      if (responses.confidence[row] === null) continue;
      const bin = Math.min(BINS - 1, Math.floor(responses.confidence[row] * BINS + 1e-9));
      (responses.verdict[row] === RIGHT ? right : wrong)[bin]++;
    }
    const tallest = Math.max(1, ...right.map((number, bin) => number + wrong[bin]));
    const bars = right.map((number, bin) => {
      const bar = make("button", "bin");
      const low = (bin / BINS).toFixed(2), high = ((bin + 1) / BINS).toFixed(2);
      bar.type = "button";
      bar.title = `${low} to ${high}: ${count(number)} correct, ${count(wrong[bin])} other`;
      bar.setAttribute("aria-label", bar.title);
      bar.addEventListener("click", () => setRange(low, bin === BINS - 1 ? "1" : (Number(high) - 0.01).toFixed(2)));
      for (const [name, part] of [["wrong", wrong[bin]], ["right", number]]) {
        const piece = make("span", `piece ${name}`);
        piece.style.height = `${(100 * part) / tallest}%`;
        bar.append(piece);
      }
      return bar;
    });
    find("histogram").replaceChildren(...bars);
  }

  function setRange(low, high) {
    find("filter-low").value = low;
    find("filter-high").value = high;
    applyFilters();
  }

  function preset(verdict, low, high, order) {
    find("filter-verdict").value = verdict;
    find("filter-order").value = order;
    setRange(low, high);
  }

  // ---- the list, of which only the rows in sight exist

  function planDraw() {
    if (drawPlanned) return;
    drawPlanned = true;
    requestAnimationFrame(() => { drawPlanned = false; drawList(); });
  }

  function drawList() {
    const list = find("list");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW_HEIGHT) - EXTRA_ROWS);
    const last = Math.min(visible.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW_HEIGHT) + EXTRA_ROWS);
    const rows = [];
    for (let place = first; place < last; place++) rows.push(listRow(place));
    find("list-rows").replaceChildren(...rows);
    find("list-empty").hidden = visible.length > 0;
  }

  function listRow(place) {
    const row = visible[place], question = responses.question[row], verdict = VERDICTS[responses.verdict[row]];
    const element = make("div", `row ${verdict.name}`);
    element.setAttribute("role", "option");
    element.setAttribute("aria-selected", String(row === selected));
    element.style.transform = `translateY(${place * ROW_HEIGHT}px)`;
    const mark = make("span", "mark", verdict.mark);
    mark.title = verdict.word;
    element.append(
      mark, confidenceBar(row), make("span", "title", questions.title[question]),
      make("span", "answer", responses.answer[row]), make("span", "from", fromWhere(row)),
    );
    element.addEventListener("click", () => select(row));
    return element;
  }

  function fromWhere(row) {
    const several = find("filter-origin").value === "" && index.origins.length > 1;
    return several ? index.origins[responses.origin[row]].label : questions.benchmark[responses.question[row]];
  }

  function confidenceBar(row) {
    const cell = make("span", "stated"), bar = make("span", "bar"), fill = make("span", "fill");
    fill.style.width = `${100 * (responses.confidence[row] ?? 0)}%`;
    bar.append(fill);
    cell.append(bar, make("span", "number", stated(row)));
    return cell;
  }

  function moveSelection(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !visible.length) return;
    event.preventDefault();
    const place = Math.min(visible.length - 1, Math.max(0, visible.indexOf(selected) + step));
    const list = find("list"), top = place * ROW_HEIGHT;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW_HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW_HEIGHT - list.clientHeight;
    select(visible[place]);
  }

  // ---- one question with its rollouts

  async function select(row) {
    selected = row;
    drawList();
    const request = ++opened, question = responses.question[row];
    const entry = (await chunk(questions.chunk[question]))[questions.place[question]];
    if (request === opened) showQuestion(question, entry, responses.origin[row], row); // else another was chosen since
  }

  function showQuestion(question, entry, origin, row) {
    const golds = make("p", "golds");
    golds.append(make("b", "", entry.golds.length > 1 ? "Any of: " : "Right answer: "), entry.golds.join("  ·  "));
    const heading = make("p", "kicker", `${questions.benchmark[question]} · ${questions.id[question]}`);
    const said = (other) => entry.responses[other - firstResponse[question]];
    const rows = rowsOf(question).filter((other) => responses.origin[other] === origin);
    rows.sort((a, b) => Boolean(said(b).tokens) - Boolean(said(a).tokens) || a - b); // what was trained on first
    const cards = rows.map((other) => rolloutCard(other, said(other), other === row || Boolean(said(other).tokens)));
    const detail = find("detail");
    detail.replaceChildren(
      heading, make("p", "question", entry.question), golds,
      originTable(question, entry, origin), legend(index.origins[origin].training), ...cards,
    );
    const place = rows.indexOf(row);
    detail.scrollTop = place > 0 ? cards[place].offsetTop - detail.offsetTop - DETAIL_MARGIN : 0;
  }

  function rowsOf(question) {
    const rows = [];
    for (let row = firstResponse[question]; responses.question[row] === question; row++) rows.push(row);
    return rows;
  }

  function originTable(question, entry, chosen) {
    const table = make("table", "origins"), body = make("tbody");
    const head = make("tr");
    for (const title of ["", "rollouts", "correct", "mean confidence"]) head.append(make("th", "", title));
    index.origins.forEach((origin, number) => {
      const rows = rowsOf(question).filter((row) => responses.origin[row] === number);
      if (!rows.length) return;
      const known = rows.map((row) => responses.confidence[row]).filter((value) => value !== null);
      const mean = known.length ? (known.reduce((a, b) => a + b, 0) / known.length).toFixed(2) : "–";
      const right = rows.filter((row) => responses.verdict[row] === RIGHT).length;
      const line = make("tr", number === chosen ? "chosen" : "");
      const name = make("td"), button = make("button", "link", origin.label);
      button.type = "button";
      button.addEventListener("click", () => showQuestion(question, entry, number, rows[0]));
      name.append(button);
      line.append(name, make("td", "", count(rows.length)), make("td", "", share(right, rows.length)), make("td", "", mean));
      body.append(line);
    });
    const top = make("thead");
    top.append(head);
    table.append(top, body);
    return table;
  }

  function legend(training) {
    const parts = training
      ? [["reasoning", "trained: reasoning and answer"], ["confidence", "trained: confidence"], ["untrained", "not trained"]]
      : [["think", "reasoning"], ["answer", "answer"], ["confidence", "confidence"]];
    const line = make("p", "legend");
    for (const [name, text] of parts) line.append(make("span", `part ${name}`, text), " ");
    return line;
  }

  function rolloutCard(row, said, open) {
    const verdict = VERDICTS[responses.verdict[row]];
    const card = make("details", `rollout ${verdict.name}`), summary = make("summary");
    summary.append(
      make("span", "mark", verdict.mark), make("span", "", `sample ${responses.sample[row]}`),
      make("span", "says", `says ${stated(row)}`),
    );
    if (said.target !== undefined) summary.append(make("span", "target", `target ${said.target}`));
    const state = stateOf(row, said);
    if (state) summary.append(make("span", "state", state));
    card.append(summary);
    const fill = () => { if (card.open && card.childElementCount === 1) card.append(responseText(row, said)); };
    card.addEventListener("toggle", fill);
    card.open = open;
    fill();
    return card;
  }

  function stateOf(row, said) {
    if (said.reason !== "ok") return said.reason.replaceAll("_", " ");
    if (!index.origins[responses.origin[row]].training) return "";
    return said.tokens ? "in the training set" : "not drawn";
  }

  function responseText(row, said) {
    const box = make("pre", "response");
    if (said.tokens) {
      said.tokens.forEach((token, place) => box.append(make("span", `token ${TOKEN_ROLES[said.roles[place]]}`, token)));
    } else if (index.origins[responses.origin[row]].training) {
      box.append(make("span", "untrained", said.response));
    } else {
      let part = "think";
      for (const piece of said.response.split(TAGS)) {
        const tag = TAGS.test(piece) && piece.replace(/[</>]/g, "");
        if (tag) part = tag;
        if (piece) box.append(make("span", tag ? `tag ${part}` : part, piece));
        if (tag && piece[1] === "/") part = "between";
      }
    }
    return box;
  }

  // ---- start

  async function start() {
    index = await unpack(find("responses-index"));
    ({ responses, questions } = index);
    firstResponse = firstOfEachQuestion();
    index.origins.forEach((origin, number) => {
      const note = origin.shown < origin.total ? ` (${count(origin.shown)} of ${count(origin.total)})` : "";
      find("filter-origin").append(option(number, origin.label + note));
    });
    for (const name of index.benchmarks) find("filter-benchmark").append(option(name, name));
    find("filters").addEventListener("input", applyFilters);
    find("filters").addEventListener("submit", (event) => event.preventDefault());
    find("filters").addEventListener("reset", () => setTimeout(applyFilters));
    find("confidently-wrong").addEventListener("click", () => preset(String(WRONG), "0.9", "1", "falling"));
    find("doubtfully-right").addEventListener("click", () => preset(String(RIGHT), "0", "0.3", "rising"));
    find("list").addEventListener("scroll", planDraw);
    find("list").addEventListener("keydown", moveSelection);
    addEventListener("resize", planDraw);
    find("inspector").hidden = false;
    applyFilters();
    if (visible.length) await select(visible[0]);
    document.documentElement.dataset.inspector = "ready";
  }

  if (find("responses-index")) start();
})();
