/** The parameters of the presets as a Markdown table, from their schemas; docs/algorithms.md holds it. Run: node trainer-feed/algorithms/parameter-table.ts --write */
import { readFileSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import { PRESETS } from './registry.ts';

const TARGET = new URL('../../docs/algorithms.md', import.meta.url);
const BEGIN = '<!-- parameters: written by trainer-feed/algorithms/parameter-table.ts -->';
const END = '<!-- end of parameters -->';

type Schema = {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly default?: unknown;
  readonly description?: string;
};

export function parameterTable(): string {
  const rows = PRESETS.flatMap(({ name, schema }) => {
    const { properties = {}, required = [] } = z.toJSONSchema(schema, { io: 'input' }) as Schema;
    const fields = Object.entries(properties);
    if (fields.length === 0) return [`| \`${name}\` | – | | | |`];
    return fields.map(([field, of], i) => {
      const fallback = required.includes(field) ? 'required' : of.default === undefined ? '' : `\`${JSON.stringify(of.default)}\``;
      return `| ${i === 0 ? `\`${name}\`` : ''} | \`${field}\` | ${typeText(of)} | ${fallback} | ${descriptionOf(of)} |`;
    });
  });
  return ['| algorithm | parameter | type | default | meaning |', '| --- | --- | --- | --- | --- |', ...rows].join('\n');
}

function typeText(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((v) => `\`${String(v)}\``).join(', ');
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeText).join(' or ');
  if (schema.type === 'array') return `list of ${typeText(schema.items ?? {})}`;
  if (schema.type === 'object' && schema.properties !== undefined) {
    const fields = Object.entries(schema.properties).map(([name, of]) =>
      `${name} ${of.default === undefined ? '' : JSON.stringify(of.default)}`.trim(),
    );
    return `object (${fields.join(', ')})`;
  }
  if (schema.type === 'object') return `object of ${typeText(schema.additionalProperties as Schema)}`;
  return schema.type ?? 'any';
}

function descriptionOf(schema: Schema): string {
  return schema.description ?? schema.anyOf?.find((s) => s.description !== undefined)?.description ?? '';
}

/** `page` with the table between its marks. */
export function withTable(page: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`docs/algorithms.md lacks "${BEGIN}" and "${END}"`);
  return `${page.slice(0, begin)}${BEGIN}\n\n${parameterTable()}\n\n${page.slice(end)}`;
}

if (process.argv[1] !== undefined && import.meta.filename === process.argv[1] && process.argv.includes('--write')) {
  writeFileSync(TARGET, withTable(readFileSync(TARGET, 'utf8')));
}
