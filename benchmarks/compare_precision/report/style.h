// The style of the report. Colours are Okabe and Ito's, which people who confuse colours can tell
// apart; light, dark and print.
#pragma once

namespace demi::benchmarks {

inline constexpr char kReportStyle[] = R"css(
:root { color-scheme: light dark; --ink: #1b1b1f; --soft: #5d5d66; --line: #d9d9df; --page: #fff;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #b58a00; --c5: #56b4e9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf1; --soft: #a6a6b3; --line: #3a3a44; --page: #16161a;
    --c0: #4fa8e0; --c1: #f08a3c; --c2: #2fc79b; --c3: #e59fc5; --c4: #e8c340; --c5: #8fd0f5; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page);
  margin: 0 auto; padding: 16px; max-width: 1160px; }
h1 { font-size: 1.35rem; margin: 0 0 4px; } h2 { font-size: 1.05rem; margin: 28px 0 8px; }
p { margin: 4px 0; max-width: 75ch; } .soft { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr));
  gap: 20px 28px; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { font-size: 10.5px; fill: var(--soft); } svg .title { font-size: 12px; fill: var(--ink);
  font-weight: 600; } svg .legend, svg .value { fill: var(--ink); } svg .power { font-size: 8px; }
.grid { stroke: var(--line); stroke-width: .7; } .line { fill: none; stroke-width: 1.4;
  stroke-linejoin: round; stroke-opacity: .75; } .area { fill-opacity: .85; }
.dot { fill: var(--ink); fill-opacity: .55; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); stroke-dasharray: 5 2; }
.s2 { stroke: var(--c2); stroke-dasharray: 1.5 1.5; } .s3 { stroke: var(--c3); }
.a0, .b0 { fill: var(--c0); } .a1, .b1 { fill: var(--c1); } .a2, .b2 { fill: var(--c2); }
.a3, .b3 { fill: var(--c3); } .a4, .b4 { fill: var(--c4); } .a5, .b5 { fill: var(--c5); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .86rem;
  font-variant-numeric: tabular-nums; } th, td { padding: 3px 10px; text-align: right;
  border-bottom: 1px solid var(--line); white-space: nowrap; } th:first-child, td:first-child {
  text-align: left; padding-left: 0; } td.left, th.left { text-align: left; }
th { font-weight: 600; } tbody tr:last-child td { border-bottom: 0; }
details { margin: 8px 0; } summary { cursor: pointer; }
pre { overflow-x: auto; font-size: .8rem; line-height: 1.35; }
@media (max-width: 480px) { body { padding: 12px; } th, td { padding: 3px 6px; }
  table { font-size: .8rem; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #ccc; --page: #fff;
    --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #b58a00; --c5: #56b4e9; }
  body { max-width: none; padding: 0; font-size: 11px; } figure, tr { break-inside: avoid; }
  h2, h3, h2 + p { break-after: avoid; } .charts { grid-template-columns: 1fr 1fr; }
  .scroll, pre { overflow: visible; } .scroll table { font-size: 8.5px; }
  .scroll th, .scroll td { padding: 2px 4px; white-space: normal; }
  .area, .a0, .a1, .a2, .a3, .a4, .a5, rect { print-color-adjust: exact;
    -webkit-print-color-adjust: exact; } }
)css";

}  // namespace demi::benchmarks
