"""How the status page looks: one style sheet in the page itself, for light and dark, wide and narrow."""

import base64
import hashlib

STYLE = """
:root { color-scheme: light dark; --ground: #f6f7f9; --card: #fff; --edge: #dfe3e8; --text: #1b2430; --faint: #5b6776;
  --line: #2563c9; --good: #1a7f45; --wait: #9a6200; --bad: #c02b2b; --quiet: #5b6776; }
@media (prefers-color-scheme: dark) { :root { --ground: #12161c; --card: #1a2028; --edge: #2d3642; --text: #e4e9ef;
  --faint: #98a5b3; --line: #6ba4ff; --good: #4cc27d; --wait: #e0a53c; --bad: #ff7b72; --quiet: #98a5b3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 20px 16px 28px; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 14px; }
h1 { font-size: 20px; margin: 0; font-weight: 650; }
h2 { font-size: 14px; margin: 0 0 8px; font-weight: 600; }
h2 small { font-weight: 400; color: var(--faint); font-size: 13px; }
.state { display: inline-flex; align-items: center; gap: 8px; font-weight: 600; padding: 2px 12px; border-radius: 99px;
  border: 1px solid currentColor; }
.state::before { content: ""; width: 9px; height: 9px; border-radius: 50%; background: currentColor; }
.good { color: var(--good); } .wait { color: var(--wait); } .bad { color: var(--bad); } .quiet { color: var(--quiet); }
.detail { margin: 8px 0 0; overflow-wrap: anywhere; }
.place { margin: 6px 0 16px; color: var(--faint); overflow-wrap: anywhere; }
.place b { color: var(--text); font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin: 0 0 12px; }
.tiles div, section { background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 11px 14px; }
dt { color: var(--faint); font-size: 13px; }
dd { margin: 1px 0 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
dd + dd { font-size: 13px; font-weight: 400; color: var(--faint); white-space: normal; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(330px, 100%), 1fr)); gap: 12px; }
section { margin: 0 0 12px; min-width: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--faint); padding: 2px 20px 5px 0; white-space: nowrap; }
td { padding: 5px 20px 5px 0; border-top: 1px solid var(--edge); vertical-align: top; white-space: nowrap; }
td.name { white-space: normal; overflow-wrap: anywhere; }
th.number, td.number { text-align: right; }
th:last-child, td:last-child { padding-right: 0; }
ul { list-style: none; margin: 0; padding: 0; font-size: 13.5px; }
li { padding: 5px 0; border-top: 1px solid var(--edge); overflow-wrap: anywhere; }
li span { color: var(--faint); } li b { font-weight: 600; }
.none { color: var(--faint); margin: 0; font-size: 13.5px; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 11px; fill: var(--faint); }
svg .grid { stroke: var(--edge); stroke-width: 1; }
svg .line { fill: none; stroke: var(--line); stroke-width: 1.8; stroke-linejoin: round; }
svg .area { fill: var(--line); opacity: .13; }
svg .dot { fill: var(--line); }
footer { color: var(--faint); font-size: 13px; overflow-wrap: anywhere; }
a { color: inherit; }
@media (max-width: 720px) { main { padding: 14px 10px 20px; } .tiles { grid-template-columns: 1fr 1fr; gap: 8px; }
  .tiles div, section { padding: 9px 11px; } dd { font-size: 18px; } }
"""

_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# This very style sheet, and pictures that are in the page itself, such as its icon. No script, nothing from elsewhere.
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
