// The page's style sheet and script.
#pragma once

namespace quarry::report {

inline constexpr const char* kPageStyle = R"CSS(
:root { color-scheme: light dark; --page: #f9f9f7; --card: #fcfcfb; --text: #0b0b0b; --soft: #52514e; --faint: #898781;
  --grid: #e8e7e1; --axis: #c3c2b7; --edge: #e1e0d9; --main: #2a78d6; --second: #eb6834; --limit: #d03b3b;
  --read: #2a78d6; --decode: #1baf7a; --h2d: #d99a00; --compute: #008300; --worker: #898781; --d2h: #d55f8d;
  --write: #eb6834; --comm: #4a3aa7; --spill: #d03b3b; --good: #006300; --bad: #b32626; }
@media (prefers-color-scheme: dark) { :root { --page: #0d0d0d; --card: #1a1a19; --text: #ffffff; --soft: #c3c2b7;
  --faint: #898781; --grid: #2c2c2a; --axis: #4a4945; --edge: #2c2c2a; --main: #3987e5; --second: #d95926; --limit: #e66767;
  --read: #3987e5; --decode: #199e70; --h2d: #c98500; --compute: #2f9e2f; --worker: #898781; --d2h: #d55181;
  --write: #d95926; --comm: #9085e9; --spill: #e66767; --good: #0ca30c; --bad: #e66767; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 0 0 12px; }
h3, h4 { font-size: 14px; margin: 18px 0 6px; color: var(--soft); font-weight: 600; }
header p { margin: 0 0 16px; color: var(--soft); }
section, .tile { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
section { padding: 18px 20px; margin-top: 16px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.tile { padding: 12px 14px; }
.tile .name, .tile .more { color: var(--soft); font-size: 13px; }
.tile .value { font-size: 22px; font-weight: 600; white-space: nowrap; }
pre { margin: 6px 0; padding: 10px 12px; background: var(--page); border: 1px solid var(--edge); border-radius: 6px;
  overflow-x: auto; font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 10px 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); margin-top: 10px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--axis); }
th, td { padding: 5px 10px 5px 0; vertical-align: baseline; }
td { border-bottom: 1px solid var(--grid); } td:has(.key) { white-space: nowrap; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.note, .legend, .axis-name { color: var(--soft); font-size: 13px; margin: 6px 0; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 5px 0 0; }
.legend .key:not(:first-child) { margin-left: 12px; }
.meter { display: inline-block; width: 90px; height: 8px; margin-right: 10px; background: var(--grid); border-radius: 4px; overflow: hidden; text-align: left; }
.meter span { display: block; height: 100%; }
.pass { color: var(--good); } .fail { color: var(--bad); font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
svg .label { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .strong { fill: var(--limit); }
svg .grid { stroke: var(--grid); stroke-width: 1; } svg .axis { stroke: var(--axis); stroke-width: 1; }
svg .limit { stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg .line { fill: none; stroke: var(--main); stroke-width: 2; stroke-linejoin: round; } svg .area { fill: var(--main); opacity: 0.12; }
svg .line.second { stroke: var(--second); } svg .dot { fill: var(--second); stroke: var(--card); stroke-width: 2; }
.bar { fill: var(--main); background: var(--main); } .key.second { background: var(--second); }
svg .mark:hover { stroke: var(--text); stroke-width: 1; }
.track-read { fill: var(--read); background: var(--read); } .track-decode { fill: var(--decode); background: var(--decode); }
.track-h2d { fill: var(--h2d); background: var(--h2d); } .track-compute { fill: var(--compute); background: var(--compute); }
.track-worker, .track-other { fill: var(--worker); background: var(--worker); } .track-d2h { fill: var(--d2h); background: var(--d2h); }
.track-write { fill: var(--write); background: var(--write); } .track-comm { fill: var(--comm); background: var(--comm); }
.bottleneck { font-size: 1.1em; border-left: 4px solid var(--compute); padding: 0.2em 0 0.2em 0.8em; }
.track-spill { fill: var(--spill); background: var(--spill); }
#tip { position: fixed; display: none; max-width: 480px; padding: 6px 10px; background: var(--text); color: var(--page);
  border-radius: 6px; font-size: 13px; white-space: pre-line; overflow-wrap: anywhere; pointer-events: none; z-index: 1; }
@media print { body { background: none; } section { break-inside: avoid; } }
)CSS";

// The marks' titles beside the pointer, without the browser's delay; without a script the browser shows them itself.
inline constexpr const char* kPageScript = R"JS(
(function () {
  var tip = document.getElementById("tip");
  document.addEventListener("pointerover", function (event) {
    var mark = event.target.closest ? event.target.closest(".mark") : null;
    if (!mark) { tip.style.display = "none"; return; }
    var title = mark.querySelector("title");
    if (title) { mark.dataset.tip = title.textContent; title.remove(); mark.setAttribute("aria-label", mark.dataset.tip); }
    tip.textContent = mark.dataset.tip || "";
    tip.style.display = "block";
  });
  document.addEventListener("pointermove", function (event) {
    var x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    var y = event.clientY + 18;
    if (y + tip.offsetHeight > window.innerHeight) y = event.clientY - tip.offsetHeight - 10;
    tip.style.left = x + "px"; tip.style.top = y + "px";
  });
})();
)JS";

}  // namespace quarry::report
