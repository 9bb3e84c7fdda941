/** What the tests of wrapped clients share: an edge, an engine, a recorder, and reading back what was recorded. */
import assert from 'node:assert/strict';
import { after, afterEach, before } from 'node:test';
import { createRecorder, type Recorder, type Rollout, type Trace } from '../../harness-sdk/index.ts';
import { openEdge, type Edge } from '../../ingest/http/edge-under-test.ts';
import type { PackedArray } from '../../events/packed-array.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import type { SeenRequest } from '../fake-engine/seen.ts';

export type NodeData = {
  index: number; parent: number | null; role: string; message: { role: string; content: unknown; [key: string]: unknown }; sampled: boolean;
  tokens?: { ids: PackedArray<'u32'>; mask: PackedArray<'u8'>; logprobs?: PackedArray<'f32'> };
  tokenError?: string; call?: number; forkReason?: string; attribution?: string; partial?: boolean;
}; // prettier-ignore
export type CallData = {
  index: number; node?: number; model?: string; dialect: string; endpoint: string; sampling: Record<string, unknown>; requestDigest: string; finishReason?: string;
  usage?: Record<string, number>; time: { start: number; end: number }; firstToken?: number; stream: boolean; retryOf?: number;
  error?: { type: string; message: string; statusCode?: number }; extra?: { responseId?: string; nodes?: number[] };
}; // prettier-ignore
export type Recorded = { nodes: NodeData[]; calls: CallData[] };

/** Made before the tests of a file and closed after them. */
export type World = { edge: Edge; engine: FakeEngine; recorder: Recorder; rollout: Rollout };

/** Registers the hooks; the fields are there once the tests run. Nothing may fail to be recorded meanwhile. */
export function worldOfWraps(): World {
  const world = {} as World;
  const problems: unknown[] = [];
  before(async () => {
    world.edge = await openEdge();
    world.engine = await startFakeEngine({ seed: 7 });
    world.recorder = createRecorder({ url: world.edge.url, lingerMs: 1, onProblem: (problem) => problems.push(problem) });
    world.rollout = world.recorder.rollout({ env: 'wraps' });
  });
  afterEach(() => {
    assert.deepEqual(problems, []);
  });
  after(async () => {
    await world.recorder.close();
    await world.engine.close();
    await world.edge.close();
  });
  return world;
}

export async function recorded({ recorder, edge }: World, trace: Trace): Promise<Recorded> {
  await recorder.flush();
  const events = (await edge.stored())
    .map(({ event }) => event as { type: string; trace?: string; data: unknown })
    .filter((event) => event.trace === trace.id);
  const of = <T>(type: string): T[] => events.filter((event) => event.type === type).map(({ data }) => data as T);
  return { nodes: of<NodeData>('node.appended'), calls: of<CallData>('call.recorded') };
}

function idsOf({ tokens }: NodeData): number[] {
  return [...(tokens?.ids.typed() ?? [])];
}

/** Ids along the path to a node, with 1 for those that were sampled. */
export function pathOf(nodes: readonly NodeData[], leaf: number): { ids: number[]; mask: number[]; logprobs: number[] } {
  const path: NodeData[] = [];
  for (let at: number | null = leaf; at !== null; at = (nodes[at] as NodeData).parent) path.unshift(nodes[at] as NodeData);
  return {
    ids: path.flatMap(idsOf),
    mask: path.flatMap(({ tokens }) => [...(tokens?.mask.typed() ?? [])]),
    logprobs: path.flatMap(({ tokens }) => [...(tokens?.logprobs?.typed() ?? [])]),
  };
}

/** The rule: concatenated along its path, an answer's ids are what the engine saw and sampled. */
export function assertIdentity(nodes: readonly NodeData[], leaf: number, seen: SeenRequest, choice = 0): void {
  const { ids, mask } = pathOf(nodes, leaf);
  const sampled = seen.choices[choice];
  assert.deepEqual(ids, [...(seen.promptIds ?? []), ...(sampled?.ids ?? [])]);
  assert.equal(mask.length, ids.length);
  const { tokens } = nodes[leaf] as NodeData;
  assert.deepEqual([...(tokens?.ids.typed() ?? [])].slice(-(sampled?.ids.length ?? 0)), [...(sampled?.ids ?? [])]);
  assert.deepEqual(tokens?.logprobs?.typed(), sampled?.logprobs);
  assert.equal(
    [...(tokens?.mask.typed() ?? [])].reduce((sum, bit) => sum + bit, 0),
    sampled?.ids.length,
  );
}

export async function collect(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const each of stream) found.push(each);
  return found;
}
