/** Two rollouts in two columns: what each was worth and how long it was, then their messages from one before the first difference. */
import type { DiffAnswer, DiffMessage, DiffSide } from '../../query/analytics/diff/diff-answer.ts';
import type { Paint } from './paint.ts';
import { cutTo, padEnd, visible, widthOf } from './terminal-text.ts';

const MIN_COLUMNS = 60;
const NAME_WIDTH = 16;
/** Lines of one message. */
const MAX_LINES = 12;
const NOTHING = '–';

export function renderDiff(diff: DiffAnswer, columns: number, paint: Paint): string[] {
  const width = Math.floor((Math.max(MIN_COLUMNS, columns) - NAME_WIDTH - 4) / 2);
  const facts = factsOf(diff).map(([name, a, b]) => {
    const differs = a !== b;
    const cells = [a, b].map((text) => padEnd(cutTo(visible(text), width), width));
    return `${paint.dim(padEnd(name, NAME_WIDTH))}  ${differs ? paint.bold(cells[0] as string) : cells[0]}  ${differs ? paint.bold((cells[1] as string).trimEnd()) : (cells[1] as string).trimEnd()}`;
  });
  const note = diff.sameTask ? [] : [paint.yellow('these are rollouts of different tasks')];
  return [...note, ...facts, '', `${paint.bold('messages')}: ${divergenceText(diff)}`, ...diff.rows.flatMap((row) => messageLines(row, diff, Math.floor((Math.max(MIN_COLUMNS, columns) - 3) / 2), paint)), ...(diff.rowsCut ? [paint.dim('… more with --limit')] : [])];
} // prettier-ignore

function factsOf({ a, b }: DiffAnswer): [string, string, string][] {
  const fact = (name: string, of: (side: DiffSide) => string): [string, string, string] => [name, of(a), of(b)];
  const number = (value: number | null): string => (value === null ? NOTHING : String(Number(value.toPrecision(6))));
  const names = [...new Set([...a.rewards, ...b.rewards].map(({ name }) => name))].toSorted();
  const scoreOf = (side: DiffSide, name: string): string => side.rewards.filter((each) => each.name === name).map(({ score }) => number(score)).join(', ') || NOTHING;
  const versions = ({ policyVersions: { min, max } }: DiffSide): string => (min === null ? NOTHING : min === max ? String(min) : `${min} to ${max}`);
  return [
    fact('rollout', (side) => side.rollout),
    fact('run', (side) => side.run),
    fact('task', (side) => side.taskKey ?? side.taskHash ?? NOTHING),
    fact('trace', (side) => side.trace ?? NOTHING),
    fact('reward', (side) => number(side.reward)),
    ...names.map((name) => fact(`  ${visible(name)}`, (side) => scoreOf(side, name))),
    fact('ended', (side) => side.cancelled ?? (side.ok === null ? NOTHING : side.ok ? 'well' : 'badly')),
    fact('stop', (side) => side.size.stopCondition ?? NOTHING),
    fact('policy version', versions),
    fact('messages', (side) => String(side.messages)),
    fact('turns', (side) => String(side.size.turns)),
    fact('output tokens', (side) => number(side.size.outputTokens)),
    fact('input tokens', (side) => number(side.size.inputTokens)),
    fact('cost', (side) => number(side.size.cost)),
    fact('tools', (side) => side.tools.map((tool) => `${tool.name} ${tool.runs}${tool.failed > 0 ? ` (${tool.failed} failed)` : ''}`).join(', ') || NOTHING),
    fact('errors', (side) => side.errors.map((error) => `${error.type} ${error.count}`).join(', ') || NOTHING),
  ];
} // prettier-ignore

function divergenceText({ divergence, shared }: DiffAnswer): string {
  if (divergence === null) return `the same to their ends (${shared})`;
  const where = divergence.character === null ? '' : ` at character ${divergence.character}`;
  if (divergence.kind === 'end') return `${shared} are the same, then one ends`;
  return `${shared} are the same, then ${divergence.kind} differ${divergence.kind === 'tokens' || divergence.kind === 'tool calls' ? '' : 's'}${where}`;
}

function messageLines(row: DiffAnswer['rows'][number], diff: DiffAnswer, width: number, paint: Paint): string[] {
  const isFirst = diff.divergence !== null && row.at === diff.divergence.at;
  const [left, right] = [row.a, row.b].map((message) => linesOf(message, width));
  const title = paint.dim(`── ${row.at}${isFirst ? ' first difference' : row.at < diff.shared ? ' the same' : ''} `.padEnd(2 * width + 3, '─'));
  const count = Math.max(left?.length ?? 0, right?.length ?? 0);
  const lines = Array.from({ length: count }, (_, place) => `${padEnd(left?.[place] ?? '', width)} ${paint.dim('│')} ${right?.[place] ?? ''}`.trimEnd());
  return [isFirst ? paint.yellow(title) : title, ...lines];
} // prettier-ignore

function linesOf(message: DiffMessage | null, width: number): string[] {
  if (message === null) return [NOTHING];
  const texts = [message.reasoning === null ? '' : `(${message.reasoning})`, message.text ?? '', message.toolCalls === null ? '' : `→ ${message.toolCalls}`];
  const wrapped = texts.filter((text) => text !== '').flatMap((text) => text.split('\n').flatMap((line) => wrap(visible(line), width)));
  const shown = wrapped.slice(0, MAX_LINES);
  const isCut = message.cut || wrapped.length > shown.length;
  return [`${message.role} ${message.index}${message.sampled ? ' ●' : ''}`, ...shown, ...(isCut ? ['…'] : [])];
} // prettier-ignore

/** Breaks at spaces where it can; never inside a character. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/(?<= )/)) {
    let rest = word;
    if (line !== '' && widthOf(line + rest.trimEnd()) > width) {
      lines.push(line.trimEnd());
      line = '';
    }
    while (widthOf(rest) > width) {
      const head = cutTo(rest, width).slice(0, -1);
      lines.push(head);
      rest = rest.slice(head.length);
    }
    line += rest;
  }
  return [...lines, line.trimEnd()];
}
