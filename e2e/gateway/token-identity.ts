/** Compares what the gateway recorded, read back over SQL, with what the engine gave: ids bit for bit, log-probabilities as float32, mask and parents. */
import assert from 'node:assert/strict';
import type { SeenRequest } from '../fake-engine/seen.ts';
import type { GatewayServer } from './gateway-server.ts';

export type NodeRow = {
  readonly trace: string;
  readonly index: number;
  readonly parent: number | null;
  readonly role: string;
  readonly sampled: boolean | number;
  readonly text: string | null;
  readonly reasoning: string | null;
  readonly message: string | null;
  readonly tokens: number | null;
  readonly token_ids: readonly number[];
  readonly mask: readonly number[];
  readonly logprobs: readonly (number | null)[];
  readonly partial: boolean | number | null;
  readonly fork_reason: string | null;
  readonly call: number | null;
  readonly extra: string | null;
  readonly rest: string | null;
};

export async function nodesOf(gateway: GatewayServer, trace: string): Promise<NodeRow[]> {
  return gateway.sql<NodeRow>(
    `SELECT trace, toUInt32(index) AS index, parent, role, sampled, text, reasoning, message, toUInt32OrNull(toString(tokens)) AS tokens,
            token_ids, mask, logprobs, partial, fork_reason, call, extra, rest
     FROM nodes WHERE trace = {trace:String} ORDER BY index`,
    { trace },
  );
}

/** Ids from the root down to a node. */
export function pathIds(nodes: readonly NodeRow[], leaf: NodeRow): number[] {
  const before = leaf.parent === null ? [] : pathIds(nodes, nodes[leaf.parent] as NodeRow);
  return [...before, ...leaf.token_ids];
}

/**
 * Every answer the engine completed for this trace is one sampled node, whose path is exactly prompt and completion. An answer that broke off may be one, marked partial, whose
 * path is the start of them. There is no other sampled node with tokens.
 * The gateway names the trace to the engine in `x-session-id`. Answers how many answers were compared.
 */
export async function provesIdentity(gateway: GatewayServer, requests: readonly SeenRequest[], trace: string): Promise<number> {
  const nodes = await nodesOf(gateway, trace);
  const left = new Set(nodes.filter((n) => Boolean(n.sampled) && n.tokens !== null));
  const answers = requests
    .filter((r) => r.headers['x-session-id'] === trace && r.outcome === 'complete' && r.promptIds !== null)
    .flatMap((r) => r.choices.map((choice) => ({ prompt: r.promptIds as Uint32Array, choice })));
  for (const { prompt, choice } of answers) {
    const whole = [...prompt, ...choice.ids];
    const node = [...left].find((n) => sameIds(pathIds(nodes, n), whole) && sameFloats(n.logprobs, choice.logprobs));
    if (node === undefined) {
      const paths = [...left].map((n) => `${n.index}: ${pathIds(nodes, n).join(' ')} | ${n.logprobs.join(' ')}`);
      assert.fail(`no node holds the answer ${whole.join(' ')} | ${Array.from(choice.logprobs).join(' ')}\nthere are\n${paths.join('\n')}`);
    }
    left.delete(node);
    const scaffold = node.token_ids.length - choice.ids.length;
    assert.deepEqual(
      node.mask,
      [...Array<number>(scaffold).fill(0), ...Array<number>(choice.ids.length).fill(1)],
      `mask of node ${node.index}`,
    );
  }
  for (const { promptIds, choices } of requests.filter(
    (r) => r.headers['x-session-id'] === trace && ['cut', 'client_closed'].includes(r.outcome),
  )) {
    const broken = [...left].find(
      (n) => Boolean(n.partial) && choices.some((c) => isStart(n, pathIds(nodes, n), promptIds ?? new Uint32Array(), c)),
    );
    if (broken !== undefined) left.delete(broken);
  }
  assert.deepEqual([...left].map((n) => n.index), [], 'sampled nodes that no answer of the engine explains'); // prettier-ignore
  return answers.length;
}

function isStart(node: NodeRow, path: readonly number[], prompt: Uint32Array, { ids, logprobs }: SeenRequest['choices'][number]): boolean {
  const sampled = node.mask.filter((m) => m === 1).length;
  return sameIds(path, [...prompt, ...ids.slice(0, sampled)]) && sameFloats(node.logprobs, logprobs.slice(0, sampled));
}

function sameIds(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, i) => id === b[i]);
}

/** As float32, bit for bit (JSON keeps no -0, which a log-probability is never). */
function sameFloats(a: readonly (number | null)[], b: Float32Array): boolean {
  return a.length === b.length && a.every((value, i) => value !== null && Object.is(Math.fround(value), b[i]));
}
