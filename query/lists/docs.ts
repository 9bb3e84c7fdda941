/** Writes docs/rest.md from the table of resources. Run: node query/lists/docs.ts --write */
import { readFileSync, writeFileSync } from 'node:fs';
import { TOKEN_COLUMN_MEANINGS } from '../tokens/token-columns.ts';
import { isSortable, type Field } from './field.ts';
import { operatorsOf } from './filter.ts';
import type { Resource } from './resource.ts';
import { RESOURCES } from './resources.ts';

const TARGET = new URL('../../docs/rest.md', import.meta.url);
const HEAD = new URL('docs-introduction.md', import.meta.url);

export function restDocs(): string {
  const tokens = Object.entries(TOKEN_COLUMN_MEANINGS).map(([name, meaning]) => `\n- \`${name}\`: ${meaning}`).join(''); // prettier-ignore
  return readFileSync(HEAD, 'utf8')
    .replace('{{tokens}}', () => tokens)
    .replace('{{resources}}\n', () => `## Resources\n\n${contents()}\n\n${RESOURCES.map(section).join('\n')}`);
}

function contents(): string {
  return `| resource | what it is |\n|---|---|\n${RESOURCES.map(({ name, about }) => `| [${name}](#${name}) | ${about} |`).join('\n')}`;
}

function section(resource: Resource): string {
  const { name, about, fetch, key, sort, rewards, metrics, fields } = resource;
  const lines = [
    `\`GET /v1/${name}\`${fetch === null ? '' : `, one by \`GET /v1${fetch.replaceAll(/:(\w+)/g, '{$1}')}\``}. Key: ${key.join(', ')}. Usual order: ${sort.join(', ')}.`,
    ...(rewards === null ? [] : [`Named rewards: \`reward.<name>\`.`]),
    ...(metrics === null ? [] : [`Named metrics: \`metric.<name>\`.`]),
  ];
  return `### ${name}\n\n${about}\n\n${lines.join(' ')}\n\n| field | type | conditions | meaning |\n|---|---|---|---|\n${fields.map(row).join('\n')}\n`;
}

function row(field: Field): string {
  const { name, type, nullable, about, unit, wide, join } = field;
  const more = [unit === undefined ? '' : ` (${unit})`, wide || join !== undefined ? '; only when named' : ''].join('');
  const conditions = operatorsOf(field).length === 0 ? 'none' : `${conditionsText(field)}${isSortable(field) ? ', sort' : ''}`;
  return `| \`${name}\` | ${type}${nullable ? ', null' : ''} | ${conditions} | ${about.replaceAll('|', '\\|')}${more} |`;
}

/** The families of operators, since a full list in each row is not read. */
function conditionsText(field: Field): string {
  const known = new Set(operatorsOf(field));
  const families = [
    ['equality', 'eq'],
    ['order', 'lt'],
    ['text', 'icontains'],
    ['element', field.type === 'strings' ? 'contains' : ''],
  ] as const;
  return families.flatMap(([name, op]) => (op !== '' && known.has(op) ? [name] : [])).join(', ');
}

if (import.meta.main) {
  if (process.argv.includes('--write')) writeFileSync(TARGET, restDocs());
  else process.stdout.write(restDocs());
}
