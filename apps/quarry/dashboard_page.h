// The page: everything in one document, which asks for the progress once a second.
#pragma once

namespace quarry::apps {

inline constexpr const char* kDashboardPage = R"HTML(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>quarry</title><style>
:root { color-scheme: light dark; --page: #f9f9f7; --card: #fcfcfb; --text: #0b0b0b; --soft: #52514e; --edge: #e1e0d9; --main: #2a78d6;
  --bad: #b32626; }
@media (prefers-color-scheme: dark) { :root { --page: #0d0d0d; --card: #1a1a19; --text: #ffffff; --soft: #c3c2b7; --edge: #2c2c2a;
  --main: #3987e5; --bad: #e66767; } }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 24px 20px; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 16px; margin: 20px 0 6px; }
p { margin: 4px 0; color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 14px 0; }
.tile { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 10px 14px; }
.tile b { display: block; font-size: 20px; } .tile span { color: var(--soft); font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--edge); } th { color: var(--soft); }
th:first-child, td:first-child { text-align: left; }
progress { width: 100%; height: 14px; accent-color: var(--main); }
#lost { color: var(--bad); }
</style></head><body><main>
<h1 id="title">quarry</h1><p id="banner"></p><p id="step"></p><p id="lost"></p>
<progress id="bar" max="1" value="0" aria-label="share done"></progress>
<div class="tiles" id="tiles"></div>
<h2>Worker threads</h2><table><thead><tr><th scope="col">Queue</th><th scope="col">Busy now</th><th scope="col">Busy in all</th></tr></thead>
<tbody id="queues"></tbody></table>
<h2>Ranks</h2><table><thead><tr><th scope="col">Rank</th><th scope="col">Tasks</th><th scope="col">Bytes</th><th scope="col">Rate</th>
<th scope="col">Memory</th><th scope="col">Pinned host</th><th scope="col">Spill file</th><th scope="col">Spilled</th>
<th scope="col">Brought back</th><th scope="col">Chunks stolen</th></tr></thead><tbody id="ranks"></tbody></table>
</main><script>
"use strict";
const query = location.search;
const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function bytes(n) {
  let u = 0;
  while (Math.abs(n) >= 1024 && u < units.length - 1) { n /= 1024; ++u; }
  return (u === 0 ? n.toFixed(0) : n.toPrecision(3)) + " " + units[u];
}
function seconds(s) {
  if (s < 60) return s.toFixed(s < 10 ? 1 : 0) + " s";
  const m = Math.floor(s / 60);
  return m < 60 ? m + " min " + Math.round(s % 60) + " s" : Math.floor(m / 60) + " h " + m % 60 + " min";
}
function put(id, text) { document.getElementById(id).textContent = text; }
function rows(id, list) {
  const body = document.getElementById(id);
  body.replaceChildren(...list.map(cells => {
    const row = document.createElement("tr");
    for (const cell of cells) { const td = document.createElement("td"); td.textContent = cell; row.append(td); }
    return row;
  }));
}
function tiles(list) {
  document.getElementById("tiles").replaceChildren(...list.map(([name, value, more]) => {
    const tile = document.createElement("div"); tile.className = "tile";
    for (const [tag, text] of [["span", name], ["b", value], ["span", more]]) {
      const part = document.createElement(tag); part.textContent = text; tile.append(part);
    }
    return tile;
  }));
}
let before = null;
function rate(now, old, elapsed) { return old === undefined || elapsed <= 0 ? 0 : Math.max(0, now - old) / elapsed; }
function show(s) {
  const at = performance.now() / 1000, elapsed = before ? at - before.at : 0, all = s.all;
  document.title = Math.floor(100 * all.fraction) + " % " + s.title;
  put("title", s.title); put("banner", s.banner);
  put("step", (s.done ? "Done. " : "") + (s.step ? s.step + ", " : "") + seconds(s.seconds));
  document.getElementById("bar").value = all.fraction;
  const speed = rate(all.bytes_done, before?.s.all.bytes_done, elapsed);
  tiles([["Done", (100 * all.fraction).toFixed(1) + " %", all.left_seconds === null ? "" : seconds(all.left_seconds) + " left"],
    ["Bytes", bytes(all.bytes_done), "of " + bytes(all.bytes_total)],
    ["Rate", bytes(speed) + "/s", "mean " + bytes(s.seconds > 0 ? all.bytes_done / s.seconds : 0) + "/s"],
    ["Tasks", all.tasks_done.toLocaleString("en"), "of " + all.tasks_total.toLocaleString("en")],
    ["Memory", bytes(all.memory_used), "of " + bytes(all.memory_limit)]]);
  rows("queues", all.queues.map((queue, i) => [queue.name, rate(queue.busy_seconds, before?.s.all.queues[i].busy_seconds, elapsed).toFixed(2),
    seconds(queue.busy_seconds)]));
  rows("ranks", s.ranks.map((r, i) => [r.rank, r.tasks_done.toLocaleString("en") + " / " + r.tasks_total.toLocaleString("en"),
    bytes(r.bytes_done) + " / " + bytes(r.bytes_total), bytes(rate(r.bytes_done, before?.s.ranks[i]?.bytes_done, elapsed)) + "/s",
    bytes(r.memory_used) + " / " + bytes(r.memory_limit), r.host_limit ? bytes(r.host_used) + " / " + bytes(r.host_limit) : "",
    bytes(r.disk_used), bytes(r.spilled_bytes), bytes(r.restored_bytes), r.stolen_chunks.toLocaleString("en")]));
  before = { s, at };
}
async function ask() {
  try {
    const answer = await fetch("progress.json" + query, { cache: "no-store" });
    if (!answer.ok) throw new Error("status " + answer.status);
    show(await answer.json());
    put("lost", "");
  } catch (error) {
    put("lost", "No answer from the run (" + error.message + "): it has ended, or the connection is lost.");
  }
  setTimeout(ask, 1000);
}
ask();
</script></body></html>
)HTML";

}  // namespace quarry::apps
