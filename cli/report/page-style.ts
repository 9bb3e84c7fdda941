/** The look of a report: light and dark by the reader's setting, readable on paper, no outside resources. Tones differ in lightness too, for readers who cannot tell hues. */
export const PAGE_STYLE = `
:root{color-scheme:light dark;--bg:#f7f8fa;--card:#fff;--ink:#14181f;--soft:#5a6472;--faint:#e3e7ec;--line:#c9d0d9;--t1:#1d5fd1;--t2:#c2570c;--t3:#0f7b6c;--t4:#8a4fc7;--t5:#98a2b0;--good:#0b7a43;--bad:#b42318;--warn:#fff6e0;--warnline:#e2b34b;--on:#fff}
@media (prefers-color-scheme:dark){:root{--bg:#0f1318;--card:#171c23;--ink:#e8ecf1;--soft:#9aa6b4;--faint:#262d37;--line:#3a4451;--t1:#6ea3ff;--t2:#f2995a;--t3:#4cc9b0;--t4:#c49bf0;--t5:#6b7686;--good:#4fce8a;--bad:#ff8a7e;--warn:#2b2415;--warnline:#8a6d2a;--on:#0f1318}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1180px;margin:0 auto;padding:32px 24px 64px}
header{margin-bottom:20px}
h1{font-size:26px;line-height:1.25;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:18px;margin:0 0 4px}
h3{font-size:14px;margin:20px 0 6px;color:var(--soft);font-weight:600}
p{margin:6px 0}
.sub{color:var(--soft);margin:0}
.sub b{color:var(--ink);font-weight:600}
section{background:var(--card);border:1px solid var(--faint);border-radius:12px;padding:20px 22px;margin:16px 0}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:12px;margin:16px 0}
.card{background:var(--card);border:1px solid var(--faint);border-radius:12px;padding:14px 16px}
.card .what{color:var(--soft);font-size:13px}
.card .value{font-size:26px;font-weight:650;line-height:1.3}
.card .more{color:var(--soft);font-size:13px}
.verdict{border-left:5px solid var(--t5)}
.verdict.better{border-left-color:var(--good)}
.verdict.worse{border-left-color:var(--bad)}
.tag{display:inline-block;font-size:13px;font-weight:650;border-radius:999px;padding:1px 10px;border:1px solid currentColor;margin-right:8px}
.tag.better,.tag.passed{color:var(--good)}
.tag.worse,.tag.failed{color:var(--bad)}
.tag.undecided{color:var(--soft)}
ul.notes{margin:16px 0;padding:12px 18px 12px 34px;background:var(--warn);border:1px solid var(--warnline);border-radius:12px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(380px,100%),1fr));gap:24px;align-items:start}
figure{margin:10px 0 0}
figcaption{color:var(--soft);font-size:13px;margin-top:6px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px;margin:10px 0 0}
th{font-weight:600;color:var(--soft);text-align:right;border-bottom:1px solid var(--line);padding:5px 10px;white-space:nowrap}
td{text-align:right;border-bottom:1px solid var(--faint);padding:5px 10px;white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0;white-space:normal;overflow-wrap:anywhere}
th:last-child,td:last-child{padding-right:0}
tr:last-child td{border-bottom:0}
td.up{color:var(--good)}td.down{color:var(--bad)}
svg.chart{width:100%;height:auto;display:block}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
svg .tick{fill:var(--soft)}svg .name{fill:var(--soft);font-size:12px}svg .label{font-size:13px}svg .inside{fill:var(--on);font-weight:600}
svg .grid{stroke:var(--faint);stroke-width:1}svg .axis{stroke:var(--line);stroke-width:1}svg .axis.strong{stroke:var(--soft);stroke-dasharray:4 3}
svg .line{fill:none;stroke-width:2.2;stroke-linejoin:round}svg .whisker{stroke-width:2}svg .band{opacity:.16;stroke:none}
svg .line.tone2{stroke-dasharray:7 4}svg .line.tone3{stroke-dasharray:2 3}svg .line.tone4{stroke-dasharray:9 3 2 3}
.line.tone1,.whisker.tone1{stroke:var(--t1)}.line.tone2,.whisker.tone2{stroke:var(--t2)}.line.tone3,.whisker.tone3{stroke:var(--t3)}.line.tone4,.whisker.tone4{stroke:var(--t4)}
.dot.tone1,.band.tone1,.bar.tone1{fill:var(--t1)}.dot.tone2,.band.tone2,.bar.tone2{fill:var(--t2)}.dot.tone3,.band.tone3,.bar.tone3{fill:var(--t3)}.dot.tone4,.band.tone4,.bar.tone4{fill:var(--t4)}.bar.tone5{fill:var(--t5)}
.key{display:inline-block;width:11px;height:11px;border-radius:3px;background:var(--t1)}.key.tone2{background:var(--t2)}.key.tone3{background:var(--t3)}.key.tone4{background:var(--t4)}.key.tone5{background:var(--t5)}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;padding:0;margin:8px 0 0;font-size:13px;color:var(--soft)}
ul.legend b{color:var(--ink)}
code,pre{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--bg);border:1px solid var(--faint);border-radius:8px;padding:10px 12px;margin:8px 0}
details{margin-top:12px}summary{cursor:pointer;color:var(--soft);font-size:14px}
footer{color:var(--soft);font-size:13px}
@media print{body{background:#fff}section,.card{break-inside:avoid}main{max-width:none;padding:0}}
@media (prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
`;
