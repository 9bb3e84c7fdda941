/** docs/sql-cookbook.md from the questions and their answers. */
import { RECIPES, type Recipe } from './questions.ts';

export type Answer = { readonly columns: readonly string[]; readonly rows: readonly (readonly unknown[])[] };

const HEAD = `# SQL cookbook

Questions people ask of their runs, each with its SQL and the answer on a small made-up run. The views and columns are in [sql.md](sql.md). Ask with \`tapedeck sql "…"\`, \`POST /v1/sql\`, or any client of
ClickHouse ([clickhouse-clients.md](clickhouse-clients.md)); put your own run, feed and steps in place of \`maths\`, \`main\` and \`eval-…\`.

Made by \`TAPEDECK_UPDATE_DOCS=1 node --test query/sql/cookbook/cookbook.int.test.ts\`, which also runs every question. The sample: a training run \`maths\` of three steps with two environments and groups of
four, the feed \`main\` that trained on it, and two evals of the same four tasks.
`;

export function cookbookDocs(answers: ReadonlyMap<Recipe, Answer>): string {
  let number = 0;
  const chapters = RECIPES.map(([chapter, recipes]) => {
    const sections = recipes.map((recipe) => section(++number, recipe, answers.get(recipe) as Answer));
    return `## ${chapter}\n\n${sections.join('\n')}`;
  });
  return `${HEAD}\n${chapters.join('\n')}`;
}

function section(number: number, { asks, note, sql }: Recipe, { columns, rows }: Answer): string {
  const line = (cells: readonly unknown[]): string => `| ${cells.map(cell).join(' | ')} |`;
  const table = [line(columns), `|${columns.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n');
  return `### ${number}. ${asks}\n\n${note === undefined ? '' : `${note}\n\n`}\`\`\`sql\n${sql}\n\`\`\`\n\n${table}\n`;
}

function cell(value: unknown): string {
  if (value === null) return 'NULL';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}
