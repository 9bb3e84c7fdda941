/** docs/sql.md, made from the catalogue: `node store/columns/views/docs.ts > docs/sql.md`. */
import { CATALOGUE } from './catalogue.ts';
import type { View, ViewColumn } from './view.ts';

const HEAD = `# SQL

Questions are asked in ClickHouse SQL, read-only, over the views below: \`tapedeck sql "SELECT …"\`, \`tapedeck sql\` alone on a terminal (history, several lines until \`;\`, completion by tab,
\`\\d\`, \`\\d <view>\`, \`\\timing\`, \`\\q\`), \`POST /v1/sql\`, or any ClickHouse client ([clickhouse-clients.md](clickhouse-clients.md)). Thirty questions with their answers are in [sql-cookbook.md](sql-cookbook.md).
Every project has a database of its own that holds these views and nothing else; an API key is for one project ([security.md](security.md)).

Rules that hold everywhere
- NULL means "not measured", never 0. NaN and the infinities are values. Lists cannot be NULL in ClickHouse: \`nodes.streams\` says which were given.
- Units: every number and time has one; \`none\` is for what has no unit: numbers of nodes, steps and versions, ratios, rewards as they were scored. Text and truth values have an empty cell.
- Ids are strings as the producer gave them. Times are \`DateTime64(6, 'UTC')\`, in microseconds. A \`time\` of 1970-01-01 00:00:00 is one that the producer did not know.
- Views that list things (\`runs\`, \`groups\`, \`rollouts\`, \`traces\`) read summaries and are fast over millions of nodes. Wide columns (\`nodes.text\`, \`message\`, token lists,
  \`call_bodies\`) are read only when selected: filter by \`run\`, \`rollout\` or \`trace\` first.
- To see the task or environment of a node, call, reward or error, join with \`rollouts\`: \`… JOIN rollouts USING (run, rollout)\`.
- \`index\` and \`group\` are ordinary column names. Only an alias needs AS: \`count() AS group\`.
- "As of" a log position: the \`…_history\` views carry \`partition\` and \`offset\`.
- \`rewards.weight\` is 1 when none was given. \`reward\` of a trace is the sum of score times weight over its latest rewards; of a rollout, that of its traces plus
  the rewards with scope rollout. Rewards of nodes are in neither. One weighted NULL score makes the sum NULL, and \`rewards_missing\` counts it.

| view | what it shows |
|---|---|
`;

export function sqlDocs(): string {
  const contents = CATALOGUE.map((view) => `| [${view.name}](#${view.name}) | ${view.about} |`);
  return `${HEAD}${contents.join('\n')}\n\n${CATALOGUE.map(section).join('\n')}`;
}

function section(view: View): string {
  const rows = view.columns.map(row);
  const questions = (view.questions ?? []).map(({ asks, sql }) => `${asks}\n\n\`\`\`sql\n${sql}\n\`\`\`\n\n`);
  return `## ${view.name}\n\n${view.about}\n\n\`\`\`sql\n${view.example}\n\`\`\`\n\n${questions.join('')}| column | unit | meaning |\n|---|---|---|\n${rows.join('\n')}\n`;
}

function row({ name, meaning, unit }: ViewColumn): string {
  return `| \`${name}\` | ${unit ?? ''} | ${meaning.replaceAll('|', '\\|')} |`;
}

if (import.meta.main) process.stdout.write(sqlDocs());
