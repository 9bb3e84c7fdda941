/**
 * An unmodified `vf-eval` of a small environment, its model calls through the gateway and its own record pushed to the same server: what the gateway captured is compared
 * with what verifiers recorded. Train client (token-in): the same ids, mask and log-probabilities per branch. Eval client (chat): the same messages.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { writeByteTokenizer } from '../fake-engine/byte-tokenizer.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { hfTokenizer } from '../fake-engine/hf-tokenizer.ts';
import { findPython } from '../python.ts';
import { temporaryFolder } from '../server.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer } from './gateway-server.ts';
import { nodesOf, pathIds, provesIdentity, type NodeRow } from './token-identity.ts';

const run = promisify(execFile);
const PEERS = join(import.meta.dirname, '../../../shared/peers');
const found = existsSync(PEERS)
  ? await findPython({ packages: ['verifiers==0.4.0', 'renderers==0.1.12', 'prime-evals==0.2.4', 'uv==0.13.8'], imports: ['prime_traces', 'prime_evals'] })
  : { missing: 'the small environment (../shared/peers/toy_sum) is not here' }; // prettier-ignore
const skip = 'missing' in found ? found.missing : false;
const python = 'python' in found ? found.python : '';
const bin = dirname(python);

type Node = {
  parent?: number;
  message: { role: string; content?: string | null; reasoning_content?: string | null };
  sampled: boolean;
  token_ids: number[];
  mask: boolean[];
  logprobs: number[];
};
type Episode = {
  id: string;
  run: { id: string };
  traces: { id: string; nodes: Node[]; calls: unknown[]; rewards: Record<string, { score: number }> }[];
};

describe('vf-eval through the gateway', { skip }, () => {
  const folder = temporaryFolder('gateway-verifiers');
  const tokenizer = join(folder.path, 'tokenizer');
  let engine: FakeEngine;
  let gateway: GatewayServer;
  before(async () => {
    writeByteTokenizer(tokenizer);
    mkdirSync(join(folder.path, 'home'));
    engine = await startFakeEngine({ seed: 21, tokenizer: hfTokenizer(tokenizer) });
    gateway = await startGatewayServer({ vllm: vllmUpstream(engine) });
  });
  after(async () => {
    await gateway?.stop();
    await engine?.close();
    folder.remove();
  });

  const evaluate = async (name: string, client: readonly string[]): Promise<Episode[]> => {
    const key = ((await gateway.post(`/v1/runs/${name}/keys`, {})).json as { key: string }).key;
    const out = join(folder.path, name);
    const args = [
      join(bin, 'vf-eval'), 'toy-sum', '-m', 'toy', '-n', '2', '-r', '2', '-c', '2', '--env.agent.harness.id', 'null', '--env.agent.runtime.type', 'subprocess',
      ...client, '--client.base-url', `${gateway.url}/v1`, '--client.api-key-var', 'GATEWAY_KEY', '--no-rich', '-o', out,
    ]; // prettier-ignore
    const env = {
      PATH: `${bin}:${process.env['PATH'] ?? ''}`, HOME: join(folder.path, 'home'), PYTHONPATH: join(PEERS, 'toy_sum'), GATEWAY_KEY: key, HF_HUB_OFFLINE: '1',
      PRIME_API_KEY: 'x', PRIME_TRACES_URL: gateway.url, PRIME_API_BASE_URL: gateway.url,
      ...(process.env['PIP_CERT'] !== undefined && { SSL_CERT_FILE: process.env['PIP_CERT'] }),
    }; // prettier-ignore
    await run(python, args, { env, cwd: folder.path, timeout: 400_000, maxBuffer: 64 << 20 });
    const [file] = globSync(`${out}/*/traces.jsonl`) as [string];
    const episodes = readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Episode); // prettier-ignore
    assert.equal(episodes.length, 4);
    return episodes;
  };

  test('train client: the same ids, mask and log-probabilities per branch; the upload stands for both', async () => {
    const episodes = await evaluate('train-run', [
      '--client.type',
      'train',
      '--client.renderer.name',
      'qwen3',
      '--client.renderer-model-name',
      tokenizer,
    ]);
    for (const trace of episodes.flatMap((e) => e.traces)) {
      const captured = await nodesOf(gateway, `wire:${trace.id}`);
      assert.ok(captured.length > 0, `nothing was captured of ${trace.id}`);
      const theirs = branchesOf(trace.nodes);
      const ours = leavesOf(captured).map((leaf) => branchOf(captured, leaf));
      assert.deepEqual(ours.map((b) => b.ids), theirs.map((b) => b.ids)); // prettier-ignore
      assert.deepEqual(ours.map((b) => b.mask), theirs.map((b) => b.mask)); // prettier-ignore
      for (const [i, branch] of ours.entries()) {
        assert.equal(branch.logprobs.length, theirs[i]!.logprobs.length);
        for (const [k, value] of branch.logprobs.entries()) assert.ok(Math.abs(value - theirs[i]!.logprobs[k]!) <= 0.5e-4 + 1e-9, `${value} against ${theirs[i]!.logprobs[k]}`); // prettier-ignore
      }
      // verifiers calls the engine under its own session id; the gateway names it the same to the engine
      assert.equal(await provesIdentity(gateway, namedBy(engine, trace.id), `wire:${trace.id}`), 1);
      const uploaded = await nodesOf(gateway, trace.id);
      assert.deepEqual(leavesOf(uploaded).map((leaf) => pathIds(uploaded, leaf)), theirs.map((b) => b.ids)); // prettier-ignore
    }
    await standsForBoth(episodes);
  });

  test('eval client: the same messages; the token ids that it does not record are captured all the same', async () => {
    const episodes = await evaluate('eval-run', []);
    for (const trace of episodes.flatMap((e) => e.traces)) {
      const captured = await nodesOf(gateway, `wire:${trace.id}`);
      const said = (nodes: readonly { role: string; text: string | null }[]): unknown[] => nodes.map((n) => [n.role, n.text ?? '']);
      assert.deepEqual(said(captured), said(trace.nodes.map((n) => ({ role: n.message.role, text: n.message.content ?? '' })))); // prettier-ignore
      assert.ok(trace.nodes.every((n) => n.token_ids.length === 0));
      assert.equal(await provesIdentity(gateway, namedBy(engine, trace.id), `wire:${trace.id}`), 1);
    }
    await standsForBoth(episodes);
  });

  /** The views list the upload and leave the capture out; the capture can be asked for by name. */
  const standsForBoth = async (episodes: readonly Episode[]): Promise<void> => {
    const ids = episodes.flatMap((e) => e.traces.map((t) => t.id));
    const rows = await gateway.sql<{ trace: string; reward: number | null }>(
      'SELECT trace, reward FROM traces WHERE has({ids:Array(String)}, trace) OR has({wires:Array(String)}, trace)',
      { ids, wires: ids.map((id) => `wire:${id}`) },
    );
    assert.deepEqual(rows.map((r) => r.trace).toSorted(), ids.toSorted());
    const rewards = new Map(rows.map((r) => [r.trace, r.reward]));
    for (const trace of episodes.flatMap((e) => e.traces)) assert.equal(rewards.get(trace.id), trace.rewards['exact']?.score);
  };
});

type Branch = { readonly ids: number[]; readonly mask: number[]; readonly logprobs: number[] };

function branchesOf(nodes: readonly Node[]): Branch[] {
  const parents = new Set(nodes.map((n) => n.parent));
  const path = (index: number): Node[] => {
    const node = nodes[index] as Node;
    return [...(node.parent === undefined ? [] : path(node.parent)), node];
  };
  return [...nodes.keys()]
    .filter((i) => !parents.has(i))
    .map((leaf) => {
      const all = path(leaf);
      return {
        ids: all.flatMap((n) => n.token_ids),
        mask: all.flatMap((n) => n.mask.map(Number)),
        logprobs: all.flatMap((n) => n.logprobs),
      };
    });
}

function leavesOf(nodes: readonly NodeRow[]): NodeRow[] {
  const parents = new Set(nodes.map((n) => n.parent));
  return nodes.filter((n) => !parents.has(n.index));
}

function branchOf(nodes: readonly NodeRow[], leaf: NodeRow): Branch {
  const before = leaf.parent === null ? { ids: [], mask: [], logprobs: [] } : branchOf(nodes, nodes[leaf.parent] as NodeRow);
  return {
    ids: [...before.ids, ...leaf.token_ids],
    mask: [...before.mask, ...leaf.mask],
    logprobs: [...before.logprobs, ...leaf.logprobs.map((x) => x ?? NaN)],
  };
}

/** The engine's requests of a session, under the name that the gateway's trace has. */
function namedBy(engine: FakeEngine, session: string): ReturnType<FakeEngine['requests']> {
  const names = [session, `wire:${session}`];
  return engine
    .requests()
    .filter((r) => names.includes(String(r.headers['x-session-id'])))
    .map((r) => ({ ...r, headers: { ...r.headers, 'x-session-id': `wire:${session}` } }));
}
