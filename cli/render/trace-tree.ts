/**
 * A trace as a tree in the terminal. A chain of nodes stays in one column; where it forks, each branch is indented below the fork and ends
 * with its name, the leaf node.
 */
import type { Branch } from '../../query/traces/graph.ts';
import type { JsonFloat, TraceAnswer, TraceCall, TraceError, TraceLink, TraceNode, TraceReward } from '../../query/traces/trace-answer.ts';
import type { Paint } from './paint.ts';
import { cutTo, padEnd, padStart, visible, widthOf } from './terminal-text.ts';

const ROLE_COLOURS: Readonly<Record<string, keyof Paint>> = { system: 'magenta', user: 'blue', assistant: 'green', tool: 'yellow' };
const MIN_TEXT = 16;

export function renderTrace(answer: TraceAnswer, columns: number, paint: Paint): string[] {
  return [
    ...header(answer, paint),
    '',
    ...treeLines(answer, columns, paint),
    ...section(
      'rewards',
      answer.rewards.map((reward) => rewardLine(reward, paint)),
      paint,
    ),
    ...section('links', answer.links.map(linkLine), paint),
    ...section('failed calls', failedCalls(answer, columns, paint), paint),
    ...section(
      'errors',
      answer.errors.map((error) => errorLine(error, columns, paint)),
      paint,
    ),
    ...footer(answer, paint),
  ];
}

function header(answer: TraceAnswer, paint: Paint): string[] {
  const { summary } = answer;
  const first = `${paint.bold(`trace ${visible(answer.trace)}`)}  ${paint.dim(`rollout ${visible(answer.rollout)}  run ${visible(answer.run)}`)}`;
  if (summary === null) return [first, answer.open ? 'still open' : ''];
  const agent = [summary.agent, summary.model].filter((text) => text !== null).map((text) => visible(text));
  const facts = [
    ...agent,
    answer.open ? paint.yellow('open') : summary.ok === false ? paint.red('failed') : summary.ok === true ? paint.green('ok') : 'ended',
    ...(summary.stopCondition === null ? [] : [`stop: ${visible(summary.stopCondition)}`]),
    ...(summary.truncated === true ? [paint.yellow('truncated')] : []),
    `reward ${summary.reward === null ? 'none' : paint.bold(floatText(summary.reward))}`,
    `${answer.graph.nodes} nodes`,
    `${summary.calls} calls`,
    `${answer.graph.branchCount} ${answer.graph.branchCount === 1 ? 'branch' : 'branches'}`,
    ...(summary.inputTokens === null ? [] : [`${summary.inputTokens} tokens in`]),
    ...(summary.outputTokens === null ? [] : [`${summary.outputTokens} out`]),
  ];
  return [first, facts.join('  ')];
}

type Item = { readonly node: TraceNode; readonly prefix: string; readonly marker: string };

/** The nodes of the window in tree order. A node whose parent lies before the window starts at the left edge and says so. */
function treeLines(answer: TraceAnswer, columns: number, paint: Paint): string[] {
  const shown = new Map(answer.nodes.map((node) => [node.index, node]));
  const children = new Map<number, TraceNode[]>();
  const tops: TraceNode[] = [];
  for (const node of answer.nodes) {
    if (node.parent === null || !shown.has(node.parent)) tops.push(node);
    else {
      const siblings = children.get(node.parent);
      if (siblings) siblings.push(node);
      else children.set(node.parent, [node]);
    }
  }
  const branches = new Map(answer.graph.branches.map((branch) => [branch.leaf, branch]));
  const calls = new Map(answer.calls.filter((call) => call.node !== null).map((call) => [call.node as number, call]));
  const orphans = new Set(answer.graph.orphans);
  const lines: string[] = [];
  // An explicit stack: a trace may be hundreds of thousands of nodes deep.
  const open: Item[] = tops.toReversed().map((node) => ({ node, prefix: '', marker: '' }));
  for (let item = open.pop(); item !== undefined; item = open.pop()) {
    const { node, prefix, marker } = item;
    const marks = { isOrphan: orphans.has(node.index), isCutOff: node.parent !== null && !shown.has(node.parent) };
    lines.push(nodeLine(node, `${prefix}${marker}`, calls.get(node.index), marks, columns, paint));
    const below = prefix + (marker === '' ? '' : marker === '└─ ' ? '   ' : '│  ');
    const branch = branches.get(node.index);
    if (branch !== undefined && answer.graph.branchCount > 1) lines.push(`${below}${paint.dim(branchLine(branch))}`);
    const next = children.get(node.index) ?? [];
    if (next.length === 1) open.push({ node: next[0] as TraceNode, prefix: below, marker: '' });
    else
      for (const [at, child] of [...next.entries()].toReversed())
        open.push({ node: child, prefix: below, marker: at === next.length - 1 ? '└─ ' : '├─ ' });
  }
  return lines;
}

type Marks = { readonly isOrphan: boolean; readonly isCutOff: boolean };

function nodeLine(node: TraceNode, lead: string, call: TraceCall | undefined, marks: Marks, columns: number, paint: Paint): string {
  const role = visible(node.role);
  const label = `#${node.index} ${padEnd(role, 9)}`;
  const sampled = node.sampled ? '●' : ' ';
  const tokens = padStart(node.tokens === null ? '-' : `${node.tokens}t`, 7);
  const notes = [
    ...(node.forkReason === null ? [] : [paint.yellow(`fork: ${visible(node.forkReason)}`)]),
    ...(marks.isOrphan
      ? [paint.yellow(`parent #${node.parent ?? '?'} missing`)]
      : marks.isCutOff
        ? [paint.dim(`below #${node.parent ?? '?'}`)]
        : []),
    ...(node.policyVersion === null ? [] : [paint.dim(`v${node.policyVersion}`)]),
    ...(call === undefined ? [] : [callNote(call, paint)]),
  ];
  const note = notes.length === 0 ? '' : `${notes.join(' ')} `;
  const used = widthOf(lead) + widthOf(label) + widthOf(stripColours(note)) + tokens.length + 5;
  const text = cutTo(firstWords(node), Math.max(MIN_TEXT, columns - used));
  const colour = ROLE_COLOURS[node.role] ?? 'cyan';
  return `${paint.dim(lead)}${paint[colour](label)} ${paint.green(sampled)}${paint.dim(tokens)}  ${note}${text}`.trimEnd();
}

function callNote(call: TraceCall, paint: Paint): string {
  const reason = call.errorType ?? call.finishReason;
  const text = `call ${call.index}${reason === null ? '' : `:${visible(reason)}`}${call.retryOf === null ? '' : ` retry of ${call.retryOf}`}`;
  return call.errorType === null ? paint.dim(text) : paint.red(text);
}

function firstWords(node: TraceNode): string {
  const text = node.text ?? '';
  if (text !== '') return visible(text);
  if (node.toolCalls.length > 0) return node.toolCalls.map((call) => `→ ${visible(call.name)}(${visible(call.arguments)})`).join(' ');
  return node.reasoning === null || node.reasoning === '' ? '' : `(${visible(node.reasoning)})`;
}

function branchLine({ leaf, nodes, tokens, forkNode }: Branch): string {
  return `└ branch ${leaf}: ${nodes} nodes, ${tokens} tokens${forkNode === null ? '' : `, forked at #${forkNode}`}`;
}

function rewardLine({ name, score, weight, scope, node, source }: TraceReward, paint: Paint): string {
  const shown = score === null ? paint.dim('not scored') : paint.bold(floatText(score));
  const times = weight === null || weight === 1 ? '' : ` × ${floatText(weight)}`;
  return `${visible(name)} ${shown}${times}  ${paint.dim(`${scope}${node === null ? '' : ` #${node}`}${source === null ? '' : `, ${visible(source)}`}`)}`;
}

function linkLine({ fromTrace, fromNode, toTrace, toNode, type }: TraceLink): string {
  return `${place(fromTrace, fromNode)} → ${place(toTrace, toNode)}  ${visible(type)}`;
}

function failedCalls(answer: TraceAnswer, columns: number, paint: Paint): string[] {
  return answer.calls
    .filter((call) => call.errorType !== null)
    .map(({ index, node, errorType, errorMessage }) => {
      const where = node === null ? '' : ` (node ${node})`;
      return `call ${index}${where}: ${paint.red(visible(errorType ?? ''))} ${cutTo(visible(errorMessage ?? ''), columns)}`;
    });
}

function errorLine({ type, node, message }: TraceError, columns: number, paint: Paint): string {
  return `${paint.red(visible(type))}${node === null ? '' : ` at node ${node}`} ${cutTo(visible(message), columns)}`;
}

function footer(answer: TraceAnswer, paint: Paint): string[] {
  const lines: string[] = [];
  if (answer.window.next !== null) {
    lines.push(
      '',
      paint.dim(
        `nodes ${answer.window.from} to ${answer.window.next - 1} of ${answer.graph.nodes}; go on with --from ${answer.window.next}`,
      ),
    );
  }
  if (answer.cut.length > 0) lines.push(paint.dim(`only the first entries of: ${answer.cut.join(', ')}`));
  return lines;
}

function section(title: string, lines: readonly string[], paint: Paint): string[] {
  return lines.length === 0 ? [] : ['', paint.bold(title), ...lines.map((line) => `  ${line}`)];
}

function place(trace: string, node: number | null): string {
  return node === null ? visible(trace) : `${visible(trace)}#${node}`;
}

export function floatText(value: JsonFloat): string {
  if (typeof value !== 'number') return value.$float;
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

function stripColours(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/\u001b\[\d+m/g, '');
}
