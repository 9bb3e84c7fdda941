/** Fills the page docs/analytics.md: behind each `<!-- example: name -->` stand a request and its answer, and they are made again from the sample. */
import { EXAMPLES } from './docs-examples.ts';

const SLOT = /<!-- example: (\w+) -->\n[\s\S]*?<!-- end -->/g;
/** Digits that are shown of a fraction. */
const DIGITS = 6;
const WIDTH = 150;

export async function filledPage(page: string, ask: (request: string) => Promise<unknown>): Promise<string> {
  const answers = new Map<string, string>();
  for (const [name, { request, shown }] of Object.entries(EXAMPLES)) {
    const text = pretty(JSON.parse(JSON.stringify(shown(await ask(request)), shorter)));
    const command = `curl -s "$TAPEDECK_URL${request}"`;
    answers.set(name, `<!-- example: ${name} -->\n\n\`\`\`sh\n${command}\n\`\`\`\n\n\`\`\`json\n${text}\n\`\`\`\n\n<!-- end -->`);
  }
  const used = new Set<string>();
  const filled = page.replaceAll(SLOT, (slot, name: string) => {
    used.add(name);
    return answers.get(name) ?? slot;
  });
  const unused = [...answers.keys()].filter((name) => !used.has(name));
  if (unused.length > 0) throw new Error(`the page has no place for the examples ${unused.join(', ')}`);
  return filled;
}

function shorter(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(DIGITS)) : value;
}

/** JSON in which objects and lists that fit on a line stand on one. */
function pretty(value: unknown, indent = ''): string {
  const line = oneLine(value);
  if (typeof value !== 'object' || value === null || indent.length + line.length <= WIDTH) return line;
  const inner = `${indent}  `;
  const entries = Array.isArray(value)
    ? value.map((each) => pretty(each, inner))
    : Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}: ${pretty(each, inner)}`);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  return `${open}\n${entries.map((entry) => `${inner}${entry}`).join(',\n')}\n${indent}${close}`;
}

function oneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(oneLine).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{ ${Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}: ${oneLine(each)}`).join(', ')} }`;
} // prettier-ignore
