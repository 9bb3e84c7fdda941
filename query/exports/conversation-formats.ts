/** Conversations for tools that train on text: OpenAI chat lines, supervised pairs, preference pairs. */
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { readCursor } from '../lists/cursor.ts';
import { readList, type ListAnswer } from '../lists/read-list.ts';
import type { ListRequest } from '../lists/list-request.ts';
import { parsePosition } from '../positions/log-position.ts';
import { conversationsOf, type Conversation, type TraceKey } from './conversations.ts';
import type { ExportFormat, ExportReport, ExportRequest, ExportSink } from './export-format.ts';

const PAGE = 500;
/** What no conversation can hold, counted or not. */
const NEVER = { calls: null, rewards: null, links: null, errors: null, tools: null };

/** Pages through a list at one position. */
export async function* rowsOf(store: ColumnStore, { list, wanted }: ExportRequest, fields: readonly string[], signal: AbortSignal, tell: (asOf: string) => void): AsyncGenerator<Record<string, unknown>> {
  const wantedFields = list.resource.fields.filter((field) => fields.includes(field.name));
  const request: ListRequest = { ...list, fields: wantedFields, limit: PAGE, cursor: null, count: 'none', markers: 0, histograms: [] };
  let page: ListAnswer = await readList(store, request, wanted, signal);
  tell(page.asOf);
  for (;;) {
    yield* page.rows;
    const position = parsePosition(page.asOf);
    if (page.next === null || position === null) return;
    page = await readList(store, { ...request, cursor: readCursor(page.next, request.identity, request.sort.length) }, position, signal);
  }
} // prettier-ignore

function line(parts: Readonly<Record<string, unknown>>, messages: Readonly<Record<string, readonly string[]>>): Buffer {
  const lists = Object.entries(messages).map(([name, list]) => `${JSON.stringify(name)}:[${list.join(',')}]`);
  const rest = Object.entries(parts).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return Buffer.from(`{${[...lists, ...rest].join(',')}}\n`);
}

/** One line per branch, or per trace its last branch. */
function chatFormat(store: ColumnStore, { name, about, all }: { name: string; about: string; all: boolean }): ExportFormat {
  return {
    name,
    about,
    extension: 'jsonl',
    mediaType: 'application/jsonl',
    of: 'traces',
    write: async (request, sink, signal) => {
      let asOf = '';
      const left = { 'nodes without a message': 0, 'token streams of nodes': 0, 'other branches': 0 };
      const incomplete: string[] = [];
      const names = ['run', 'rollout', 'trace', 'env', 'task_key', 'group', 'reward', 'model', 'agent'];
      for await (const row of rowsOf(store, request, names, signal, (at) => (asOf = at))) {
        const found = await conversationsOf(store, request.project, row as unknown as TraceKey, signal);
        left['nodes without a message'] += found.withoutMessage;
        left['token streams of nodes'] += found.withTokens;
        const branches = all ? found.branches : found.branches.slice(-1);
        left['other branches'] += found.branches.length - branches.length;
        if (branches.every((branch) => branch.messages.length === 0)) incomplete.push(String(row['trace']));
        await writeBranches(branches, row, sink, all);
      }
      return { asOf, left: { ...left, ...NEVER }, incomplete };
    },
  };
}

async function writeBranches(branches: readonly Conversation[], row: Record<string, unknown>, sink: ExportSink, withMetadata: boolean): Promise<void> {
  for (const { leaf, messages } of branches) {
    if (messages.length === 0) continue;
    await sink.write(line(withMetadata ? { metadata: { ...row, leaf } } : {}, { messages }));
    sink.count(1);
  }
} // prettier-ignore

/** Per group its best and its worst trace, where their rewards differ: what both begin with is the prompt. */
function preferenceFormat(store: ColumnStore): ExportFormat {
  return {
    name: 'preference',
    about: 'per group the best and the worst trace as prompt, chosen and rejected; groups in which all rewards are equal, or fewer than two are known, are left out',
    extension: 'jsonl',
    mediaType: 'application/jsonl',
    of: 'traces',
    write: async (request, sink, signal): Promise<ExportReport> => {
      let asOf = '';
      const groups = new Map<string, Ends>();
      const names = ['run', 'rollout', 'trace', 'group', 'env', 'task_key', 'reward'];
      let ungrouped = 0;
      for await (const row of rowsOf(store, request, names, signal, (at) => (asOf = at))) {
        const { run, group, reward } = row;
        if (typeof group !== 'string' || typeof reward !== 'number') {
          ungrouped++;
          continue;
        }
        const key = JSON.stringify([run, group]);
        const ends = groups.get(key) ?? { best: row, worst: row };
        groups.set(key, { best: reward > (ends.best['reward'] as number) ? row : ends.best, worst: reward < (ends.worst['reward'] as number) ? row : ends.worst });
      }
      const incomplete: string[] = [];
      for (const [key, { best, worst }] of groups) {
        if (best['reward'] === worst['reward']) {
          incomplete.push((JSON.parse(key) as string[])[1] as string);
          continue;
        }
        await writePair(store, request.project, { best, worst }, sink, signal);
      }
      return { asOf, left: { 'traces without group or finite reward': ungrouped, ...NEVER }, incomplete };
    },
  };
} // prettier-ignore

type Ends = { readonly best: Record<string, unknown>; readonly worst: Record<string, unknown> };

async function writePair(store: ColumnStore, project: string, { best, worst }: Ends, sink: ExportSink, signal: AbortSignal): Promise<void> {
  const last = async (row: Record<string, unknown>): Promise<readonly string[]> =>
    (await conversationsOf(store, project, row as unknown as TraceKey, signal)).branches.at(-1)?.messages ?? [];
  const [chosen, rejected] = [await last(best), await last(worst)];
  let shared = 0;
  while (shared < chosen.length && shared < rejected.length && chosen[shared] === rejected[shared]) shared++;
  await sink.write(line({ metadata: { chosen: best, rejected: worst } }, { prompt: chosen.slice(0, shared), chosen: chosen.slice(shared), rejected: rejected.slice(shared) })); // prettier-ignore
  sink.count(1);
}

export function conversationFormats(store: ColumnStore): ExportFormat[] {
  return [
    chatFormat(store, { name: 'openai-chat', about: 'every branch of every trace as OpenAI chat messages with its ids and reward as metadata', all: true }),
    chatFormat(store, { name: 'sft', about: 'the last branch of every trace as messages only; choose with filters, such as reward[ge]=1', all: false }),
    preferenceFormat(store),
  ]; // prettier-ignore
}
