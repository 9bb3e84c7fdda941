/**
 * Real traces, replayed as the exchanges that made them: the graph gives back the nodes that verifiers recorded, token by token where it recorded
 * tokens. The replays: as chat calls (with the spans of its renderer where the file has them), as token-in calls, and as text-only calls.
 */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { JsonObject, Message } from '../dialects/dialect.ts';
import { choiceOf, exchangeOf } from './conversation.arbitrary.ts';
import { idsOf, maskOf, newTrace, pathOf, record, type Trace } from './recorded-trace.arbitrary.ts';

const SHARED = join(import.meta.dirname, '../../../../shared');
const skip = existsSync(join(SHARED, 'data/verifiers-v1-generated')) ? false : 'the collected files (../shared/data) are not here';
const FILES = [
  ...globSync(`${SHARED}/data/verifiers-v1-*/*.jsonl*`),
  ...globSync(`${SHARED}/peers/samples/verifiers-0.4.0-*.jsonl`),
].toSorted();

type FileNode = {
  readonly parent?: number;
  readonly message: Message;
  readonly sampled: boolean;
  readonly token_ids?: readonly number[];
  readonly mask?: readonly boolean[];
  readonly logprobs?: readonly number[];
};
type FileTrace = { readonly nodes: readonly FileNode[]; readonly tools?: readonly JsonObject[] };

/** Traces of all lines that plain JSON can read. */
function tracesOf(path: string): FileTrace[] {
  const bytes = readFileSync(path);
  const lines = (path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString().split('\n');
  return lines.flatMap((line) => {
    try {
      return (JSON.parse(line) as { traces: FileTrace[] }).traces;
    } catch {
      return [];
    }
  });
}

/** One call of a file's trace: the path before its answer, and what the engine saw. */
type Call = {
  readonly index: number;
  readonly before: readonly FileNode[];
  readonly node: FileNode;
  readonly prompt: readonly number[];
  readonly completion: readonly number[];
  readonly logprobs: Float32Array | null;
};

function callsOf(trace: FileTrace): Call[] {
  return trace.nodes.flatMap((node, index) => {
    if (!node.sampled) return [];
    const before: FileNode[] = [];
    for (let at = node.parent; at !== undefined; at = trace.nodes[at]?.parent) before.unshift(trace.nodes[at] as FileNode);
    const [ids, mask] = [node.token_ids ?? [], node.mask ?? []];
    const prompt = [...before.flatMap(({ token_ids }) => token_ids ?? []), ...ids.filter((_, i) => mask[i] === false)];
    const logprobs = node.logprobs === undefined || node.logprobs.length === 0 ? null : Float32Array.from(node.logprobs);
    return [{ index, before, node, prompt, completion: ids.filter((_, i) => mask[i] === true), logprobs }];
  });
}

function hasTokens(trace: FileTrace): boolean {
  return trace.nodes.some(({ token_ids }) => (token_ids ?? []).length > 0);
}

/** Where each message ends, as the recorded nodes have it. */
function spansOf(before: readonly FileNode[]): (number | null)[] {
  let end = 0;
  return before.map(({ token_ids }) => ((token_ids ?? []).length === 0 ? null : (end += (token_ids ?? []).length)));
}

function replayChat(trace: FileTrace): Trace {
  const made = newTrace();
  for (const { before, node, prompt, completion, logprobs } of callsOf(trace)) {
    const choice = choiceOf(node.message, completion, { logprobs });
    record(made, exchangeOf(before.map(({ message }) => message), prompt, [choice], { spans: spansOf(before) })); // prettier-ignore
  }
  return made;
}

/** Nodes up to the last answer: a file may end in inputs that were never sent. */
function answeredNodes(trace: FileTrace): readonly FileNode[] {
  return trace.nodes.slice(0, trace.nodes.findLastIndex(({ sampled }) => sampled) + 1);
}

for (const path of FILES) {
  const traces = tracesOf(path).filter(({ nodes }) => nodes.some(({ sampled }) => sampled));
  const [withTokens, textOnly] = [traces.filter(hasTokens), traces.filter((trace) => !hasTokens(trace))];
  const name = basename(path).split('.')[0];

  if (withTokens.length > 0) {
    test(`${name}: ${withTokens.length} traces replayed as chat calls give the same nodes`, { skip }, () => {
      for (const trace of withTokens) {
        const made = replayChat(trace);
        const expected = answeredNodes(trace);
        assert.equal(made.nodes.length, expected.length);
        for (const [i, node] of expected.entries()) {
          const ours = made.nodes[i];
          assert.deepEqual([ours?.parent, ours?.message, ours?.sampled], [node.parent ?? null, node.message, node.sampled]);
          assert.deepEqual([...(ours?.tokens?.ids ?? [])], node.token_ids ?? []);
          assert.deepEqual([...(ours?.tokens?.mask ?? [])], (node.mask ?? []).map(Number));
          assert.deepEqual([...(ours?.tokens?.logprobs ?? [])], [...Float32Array.from(node.logprobs ?? [])]);
        }
      }
    });

    test(`${name}: replayed as token-in calls they give the same ids, mask and log-probabilities per branch`, { skip }, () => {
      for (const trace of withTokens) {
        const made = newTrace();
        for (const { prompt, completion, logprobs, before } of callsOf(trace)) {
          const { answers } = record(made, exchangeOf(null, prompt, [choiceOf(null, completion, { logprobs })]));
          const answer = answers[0]?.node as number;
          const flags = before.flatMap(({ mask }) => (mask ?? []).map(Number));
          const expected = [...flags, ...prompt.slice(flags.length).map(() => 0), ...completion.map(() => 1)];
          assert.deepEqual(idsOf(made, answer), [...prompt, ...completion]);
          assert.deepEqual(maskOf(made, answer), expected);
          const sampled = before.flatMap((node) => (node.sampled ? (node.logprobs ?? []) : []));
          const ours = pathOf(made, answer).flatMap(({ tokens }) => [...(tokens?.logprobs ?? [])]);
          assert.deepEqual(ours, [...Float32Array.from(sampled), ...(logprobs ?? [])]);
        }
      }
    });
  }

  if (textOnly.length > 0) {
    test(`${name}: ${textOnly.length} traces replayed as text-only calls give the same nodes`, { skip }, () => {
      for (const trace of textOnly) {
        const made = newTrace();
        for (const { before, node } of callsOf(trace)) {
          record(made, exchangeOf(before.map(({ message }) => message), null, [choiceOf(node.message, null)])); // prettier-ignore
        }
        const expected = answeredNodes(trace);
        assert.deepEqual(
          made.nodes.map(({ parent, message, sampled }) => ({ parent, message, sampled })),
          expected.map(({ parent, message, sampled }) => ({ parent: parent ?? null, message, sampled })),
        );
        assert.ok(made.nodes.every(({ tokens, sampled, tokenError }) => tokens === null && (tokenError === 'no_token_ids') === sampled));
      }
    });
  }
}

test(
  'a real log of a chat agent: its engine renders no tool call of the history, so none of the 28 later turns extends the one before',
  { skip },
  () => {
    const path = FILES.find((file) => file.includes('train_workplace_assistant')) as string;
    const outcomes = tracesOf(path).flatMap((trace) => {
      const made = newTrace();
      return callsOf(trace).map(({ before, node, prompt, completion, logprobs }) => {
        const choice = choiceOf(node.message, completion, { logprobs });
        const plan = record(made, exchangeOf(before.map(({ message }) => message), prompt, [choice])); // prettier-ignore
        return `${plan.extends} ${plan.forkReason}`;
      });
    });
    const counts = Object.fromEntries([...new Set(outcomes)].toSorted().map((key) => [key, outcomes.filter((o) => o === key).length]));
    assert.deepEqual(counts, { 'null null': 5, 'false retokenised': 25, 'false template_changed': 3 });
  },
);
