/**
 * What planning a call costs in a large trace: 10,000 nodes and 2 million ids, as one chain that extends, as many branches, and as 10,000 samples of
 * one prompt. Run: node ingest/gateway/graph/graph.bench.ts
 * "prints" is the hashing of the request's messages, "plan" is planExchange with the prints at hand, "tools" hashes 20 tools of 1 KB, "fold" one node.
 */
import type { JsonObject, Message } from '../dialects/dialect.ts';
import { canonicalHash } from '../dialects/message-hash.ts';
import { choiceOf, exchangeOf } from './conversation.arbitrary.ts';
import type { Exchange } from './exchange.ts';
import { printMessages } from './message-print.ts';
import { nodeEvents } from './node-events.ts';
import { planExchange } from './plan-exchange.ts';
import { applyEvent, applyNodes, emptyGraph, graphBytes, type TraceGraph } from './trace-graph.ts';

const NODES = 10_000;
const IDS_PER_NODE = 200;

/** Milliseconds of CPU, so that neighbours on the machine disturb less. */
function median(runs: number, work: () => unknown): number {
  const times = Array.from({ length: runs }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
  return times.toSorted((a, b) => a - b)[runs >> 1] as number;
}

function say(name: string, ms: number, note = ''): void {
  process.stdout.write(`${name.padEnd(58)} ${ms.toFixed(3).padStart(9)} ms   ${note}\n`);
}

const textOf = (k: number): string => `message ${k} `.repeat(60).slice(0, 800);
const idsOf = (k: number, length: number): number[] => Array.from({ length }, (_, i) => (k * 7919 + i * 31) % 150_000);

type Grown = { readonly graph: TraceGraph; readonly messages: Message[]; readonly prompt: number[] };

/** Appends the turns of one conversation as their calls would have left them; `from` is where it leaves the conversations before it. */
function grow(graph: TraceGraph, ladder: boolean, turns: number, seed: number): Grown {
  const messages: Message[] = [];
  const prompt: number[] = [];
  let parent: number | null = null;
  const add = (role: string, k: number, carried: readonly number[], sampled: boolean): void => {
    const message: Message = { role, content: textOf(k) };
    const own = idsOf(k, IDS_PER_NODE);
    const ids = Uint32Array.from(sampled || ladder ? [...carried, ...own] : []);
    const mask = new Uint8Array(ids.length).fill(sampled ? 1 : 0, carried.length);
    const index = graph.count;
    const toolsHash = parent === null ? canonicalHash([]) : null;
    const plan = { index, parent, role, message, sampled, tokens: { ids, mask, logprobs: null, policyRuns: null }, toolsHash, time: 1 };
    applyNodes(graph, [{ ...plan, tokenError: null, forkReason: null, attribution: null, partial: false }]);
    messages.push(message);
    prompt.push(...own);
    parent = index;
  };
  add('system', seed, [], false);
  for (let turn = 0; turn < turns; turn++) {
    const [asks, answers] = [seed + turn * 2 + 1, seed + turn * 2 + 2];
    add('user', asks, [], false);
    add('assistant', answers, ladder ? [] : [...(turn === 0 ? idsOf(seed, IDS_PER_NODE) : []), ...idsOf(asks, IDS_PER_NODE)], true);
  }
  return { graph, messages, prompt };
}

function nextCall({ messages, prompt }: Grown, changed = false): Exchange {
  const next = [...messages, { role: 'user', content: 'and now?' }];
  const ids = [...prompt, ...idsOf(5, 40)];
  if (changed) ids[ids.length >> 1] = 149_999;
  return exchangeOf(next, ids, [choiceOf({ role: 'assistant', content: 'done' }, idsOf(6, 50))]);
}

function report(name: string, grown: Grown): void {
  const { graph } = grown;
  const call = nextCall(grown);
  const prints = printMessages(call.messages ?? []);
  const mib = (graphBytes(graph) / 2 ** 20).toFixed(1);
  say(`${name}: plan`, median(51, () => planExchange(graph, call, prints)), `${graph.count} nodes, ${(graph.used / 1e6).toFixed(2)} M ids, ${mib} MiB; ${call.messages?.length} messages, ${call.promptIds?.length} prompt ids`); // prettier-ignore
  const fork = nextCall(grown, true);
  say(`${name}: plan of a call that forks in the middle`, median(21, () => planExchange(graph, fork, prints)), planExchange(graph, fork, prints).forkReason ?? ''); // prettier-ignore
  say(
    `${name}: prints`,
    median(11, () => printMessages(call.messages ?? [])),
  );
  say(
    `${name}: JSON.parse of the same request, for scale`,
    median(11, () => JSON.parse(JSON.stringify(call.messages))),
    'with stringify',
  );
}

report('one chain, flat', grow(emptyGraph(), false, NODES / 2, 0));
report('one chain, ladder', grow(emptyGraph(), true, NODES / 2, 0));

const branches = emptyGraph();
let last: Grown | null = null;
for (let branch = 0; branch < 100; branch++) last = grow(branches, true, 50, 1 + branch * 1000);
report('100 branches of 100 messages', last as Grown);

const samples = emptyGraph();
const question: Message[] = [{ role: 'user', content: textOf(1) }];
const asked = exchangeOf(question, idsOf(1, IDS_PER_NODE - 20), [choiceOf({ role: 'assistant', content: 'x' }, idsOf(2, 20))]);
for (let i = 0; i < NODES; i++) {
  const choice = choiceOf({ role: 'assistant', content: `answer ${i}` }, idsOf(i, 20));
  applyNodes(samples, planExchange(samples, { ...asked, choices: [choice], start: 1, end: 2 }).nodes);
}
const continued: Message[] = [...question, { role: 'assistant', content: 'answer 5000' }, { role: 'user', content: 'go on' }];
const going = exchangeOf(continued, [...idsOf(1, IDS_PER_NODE - 20), ...idsOf(5000, 20), 1, 2, 3], asked.choices);
say(
  '10,000 samples of one prompt: one more',
  median(21, () => planExchange(samples, asked)),
  `${samples.count} nodes`,
);
say('10,000 samples of one prompt: one is continued', median(21, () => planExchange(samples, going)), String(planExchange(samples, going).extends)); // prettier-ignore

const tools: JsonObject[] = Array.from({ length: 20 }, (_, i) => ({
  type: 'function',
  function: { name: `tool_${i}`, description: 'd'.repeat(900) },
}));
say(
  'tools',
  median(51, () => canonicalHash(tools)),
);

const small = grow(emptyGraph(), false, 10, 0);
const ten = nextCall(small);
say(
  'a call of 22 messages and 4,000 ids: whole plan',
  median(201, () => planExchange(small.graph, ten)),
);
const events = nodeEvents(planExchange(emptyGraph(), nextCall(grow(emptyGraph(), false, NODES / 2, 0))), { call: 0, policyVersion: null });
say('fold from events, per node', median(5, () => {
  const graph = emptyGraph();
  for (const { time, data } of events) applyEvent(graph, { time, data });
}) / events.length, `${events.length} nodes`); // prettier-ignore
