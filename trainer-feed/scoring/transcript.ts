/** What a judge is shown of a trace: facts hold no texts, so the messages of its last branch are read from the log, where the facts say they lie. */
import { isMap } from '../../events/fields.ts';
import { readEvent } from '../../events/read-event.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { leavesOf, openAttempts } from '../groups/member-trace.ts';
import type { NodeFact, RolloutFacts, TraceFacts } from '../groups/rollout-facts.ts';
import { wholeRecord } from '../feed/read-topics.ts';
import { failed, type Scored } from './upstream.ts';

/** `prompt`: everything before the first sampled message; `answer`: the last sampled one; `transcript`: everything after the prompt. */
export type Shown = { readonly prompt: string; readonly answer: string; readonly transcript: string };

type Ports = { readonly events: EventLog; readonly blobs: BlobStore };
type Message = { readonly role: string; readonly sampled: boolean; readonly text: string };

export async function shownOf(
  rollout: Pick<RolloutFacts, 'partition' | 'links'>,
  trace: TraceFacts,
  ports: Ports,
  signal: AbortSignal,
): Promise<Scored<Shown>> {
  const messages: Message[] = [];
  for (const node of lastPath(rollout, trace)) {
    const text = await textOf(node, rollout.partition, ports, signal);
    if (text === null && node.sampled)
      return failed('judge_needs_text', `node ${node.index} of trace ${trace.trace} has no message: a judge reads texts, not token ids`);
    messages.push({ role: node.role, sampled: node.sampled, text: text ?? '' });
  }
  const first = messages.findIndex(({ sampled }) => sampled);
  const after = messages.slice(first);
  return {
    ok: true,
    value: {
      prompt: withRoles(messages.slice(0, first)),
      answer: after.findLast(({ sampled }) => sampled)?.text ?? '',
      transcript: withRoles(after),
    },
  };
}

/** Root to the newest leaf that is no attempt to compact. */
function lastPath(rollout: Pick<RolloutFacts, 'links'>, trace: TraceFacts): NodeFact[] {
  const attempts = openAttempts(rollout, trace.trace);
  const path: NodeFact[] = [];
  for (let at = leavesOf(trace).findLast((leaf) => !attempts.has(leaf)) ?? null; at !== null;) {
    const node = trace.nodes.get(at);
    if (node === undefined) break;
    path.push(node);
    at = node.parent !== null && node.parent < at ? node.parent : null;
  }
  return path.reverse();
}

async function textOf(node: NodeFact, partition: number, { events, blobs }: Ports, signal: AbortSignal): Promise<string | null> {
  const { records } = await events.read(partition, node.offset, { maxBytes: 1, signal });
  const record = records[0];
  if (record === undefined || record.offset !== node.offset) return null;
  const read = readEvent(await wholeRecord(record.value, blobs, signal));
  if (!read.ok || read.value.type !== 'node.appended' || !isMap(read.value.data.message)) return null;
  return messageText(read.value.data.message);
}

/** The text of a message, with its tool calls as `name(arguments)`. Parts that are no text are named by their type. */
export function messageText(message: Readonly<Record<string, unknown>>): string {
  const { content, tool_calls: calls } = message;
  const parts: unknown[] = Array.isArray(content) ? content : [content];
  const texts = parts.flatMap((part) => {
    if (typeof part === 'string') return [part];
    if (!isMap(part)) return [];
    return typeof part['text'] === 'string' ? [part['text']] : typeof part['type'] === 'string' ? [`[${part['type']}]`] : [];
  });
  const called = (Array.isArray(calls) ? (calls as unknown[]) : []).flatMap((call) => {
    const made = isMap(call) ? (isMap(call['function']) ? call['function'] : call) : null;
    return made === null || typeof made['name'] !== 'string' ? [] : [`${made['name']}(${argumentsText(made['arguments'])})`];
  });
  return [...texts, ...called].join('\n');
}

function argumentsText(value: unknown): string {
  return typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
}

function withRoles(messages: readonly Message[]): string {
  return messages.map(({ role, text }) => `${role}: ${text}`).join('\n\n');
}
