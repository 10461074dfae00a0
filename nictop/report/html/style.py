"""The style sheet of a report, for light and dark screens, telephones and paper; and its content
security policy.

Reads nothing. The policy names the style sheet by its hash: a browser that supports it runs no
script, loads nothing, and applies no other style.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

STYLE_SHEET = """
:root { color-scheme: light dark; --ground: #fff; --raised: #f4f5f7; --ink: #1b1e23; --dim: #5b6470; --line: #d5d9df;
  --accent: #1f6feb; --good: #1a7f37; --warn: #8a5a00; --bad: #c0202c; --area: #a9c8f5; --second: #b4502a;
  --third: #7a3fb0; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --raised: #1e2329; --ink: #e4e7eb; --dim: #9aa4b0;
  --line: #353c45; --accent: #6cb0ff; --good: #56c271; --warn: #e3b341; --bad: #ff7b72; --area: #234a78;
  --second: #f0a070; --third: #c99bf5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.45 system-ui, "Segoe UI", "Liberation Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0 0 .4rem; }
h4 { font-size: .9rem; margin: .8rem 0 .2rem; color: var(--dim); }
p, ul { margin: .35rem 0; }
ul { padding-left: 1.2rem; }
a { color: var(--accent); }
nav a { margin-right: 1rem; white-space: nowrap; }
pre, code, .tree td:first-child { font-size: .85rem;
  font-family: ui-monospace, "DejaVu Sans Mono", Consolas, monospace; }
pre { margin: .35rem 0; padding: .5rem .7rem; background: var(--raised); border: 1px solid var(--line);
  border-radius: 4px; white-space: pre-wrap; unicode-bidi: isolate; }
.guide { white-space: pre; color: var(--dim); }
td, th, dd, dt, li, h1, h2, h3, summary { unicode-bidi: isolate; }
.finding, .run { margin: .8rem 0; padding: .7rem .9rem; border: 1px solid var(--line); border-left-width: 5px;
  border-radius: 4px; }
.finding.critical { border-left-color: var(--bad); }
.finding.warning { border-left-color: var(--warn); }
.critical .mark, .bad { color: var(--bad); }
.warning .mark, .warn { color: var(--warn); }
.good { color: var(--good); }
.dim, .place, footer { color: var(--dim); }
.verdict { font-weight: 600; }
.chain span { white-space: nowrap; unicode-bidi: isolate; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .85rem; margin: .35rem 0; }
th { text-align: left; font-weight: 600; color: var(--dim); }
th, td { padding: .15rem .9rem .15rem 0; vertical-align: top; min-width: 2rem; max-width: 32rem; }
tbody tr { border-top: 1px solid var(--line); }
.tree th, .tree td { white-space: nowrap; }
td:first-child { min-width: 6rem; }
.tree td.long, .tree td:first-child { white-space: pre-wrap; min-width: 9rem; }
.tree td:first-child { min-width: 19rem; }
.limits th:last-child, .limits td:last-child { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .1rem .8rem; margin: .2rem 0 .6rem; font-size: .85rem; }
dt { color: var(--dim); }
dd { margin: 0; min-width: 0; }
details { margin: .3rem 0; border: 1px solid var(--line); border-radius: 4px; padding: .3rem .7rem; }
summary { cursor: pointer; }
figure { margin: .6rem 0; overflow-x: auto; }
figcaption { font-size: .85rem; color: var(--dim); }
svg { display: block; width: 100%; min-width: 44rem; height: auto; }
svg text { font: 12px system-ui, "Liberation Sans", sans-serif; fill: var(--dim); }
svg .value { fill: var(--ink); }
svg .axis { stroke: var(--line); }
svg .area { fill: var(--area); stroke: var(--accent); stroke-width: 1; }
svg .bar { fill: var(--area); stroke: var(--accent); stroke-width: 1; }
svg .place, svg .own { fill: none; stroke: var(--line); stroke-width: 1; }
svg .own { fill: var(--area); stroke: var(--accent); }
svg .cost { fill: var(--warn); }
svg .p99, svg .p90, svg .p50 { fill: var(--accent); }
svg .p99 { fill-opacity: .2; }
svg .p90 { fill-opacity: .3; }
svg .p50 { fill-opacity: .5; }
svg .highest { fill: none; stroke: var(--ink); stroke-width: 1; }
svg .back, svg .cpu, svg .cpu2, svg .ceiling { fill: none; stroke-width: 1.5; }
svg .back { stroke: var(--good); }
svg .cpu { stroke: var(--second); }
svg .cpu2 { stroke: var(--third); stroke-dasharray: 2 2; }
svg .ceiling { stroke: var(--bad); stroke-dasharray: 6 3; }
svg .spread { stroke: var(--ink); stroke-width: 1; fill: none; }
svg .dot { fill: var(--ground); stroke: var(--ink); stroke-width: 1; }
svg .key { stroke: none; fill: currentColor; }
footer { margin-top: 2rem; padding-top: .5rem; border-top: 1px solid var(--line); font-size: .85rem; }
@media (max-width: 40rem) { body { padding: .6rem; } dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; }
  .tree td:first-child { min-width: 13rem; } th, td { padding-right: .6rem; } }
@media print { :root { --ground: #fff; --raised: #f4f5f7; --ink: #000; --dim: #444; --line: #bbb; --accent: #1f4fb0;
  --good: #1a7f37; --warn: #8a5a00; --bad: #a00; --area: #cfe0f7; --second: #a0401a; --third: #60309a;
  color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10pt; print-color-adjust: exact; } nav { display: none; }
  h2, h3, h4, summary { break-after: avoid; } .finding h3, figure, pre, tr { break-inside: avoid; }
  .wide, figure { overflow: visible; } svg { min-width: 0; }
  table, dl, pre { font-size: 8pt; } th, td { padding-right: .5rem; }
  .tree td:first-child { min-width: 11rem; } .tree td.long { min-width: 6rem; } }
"""

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src "
    f"'sha256-{b64encode(sha256(STYLE_SHEET.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'"
)
"""Content-Security-Policy (W3C, CSP Level 3)."""
