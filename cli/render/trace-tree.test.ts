import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TraceAnswer, TraceNode } from '../../query/traces/trace-answer.ts';
import { colours, plain } from './paint.ts';
import { renderTokens } from './token-lines.ts';
import { renderTrace } from './trace-tree.ts';

function node(index: number, parent: number | null, role: string, text: string, more: Partial<TraceNode> = {}): TraceNode {
  return {
    index, parent, role, text, sampled: role === 'assistant', tokens: 10 * (index + 1), sampledTokens: role === 'assistant' ? 5 : 0, reasoning: null,
    toolCalls: [], forkReason: null, call: null, policyVersion: null, time: 0, cut: false, ...more,
  }; // prettier-ignore
}

const answer: TraceAnswer = {
  project: 'default', run: 'demo', rollout: 'r1', trace: 't1', asOf: '9~', open: false,
  summary: {
    agent: 'solver', model: 'm-1', trainable: true, ok: true, stopCondition: 'answered', truncated: false, reward: 1.25, turns: 2, calls: 3,
    inputTokens: 120, outputTokens: 40, started: 0, ended: 9,
  },
  graph: {
    nodes: 6, roots: [0], orphans: [], branchCount: 2, lastLeaf: 5,
    branches: [
      { leaf: 3, nodes: 4, tokens: 100, forkNode: 1, firstOwn: 2 },
      { leaf: 5, nodes: 4, tokens: 140, forkNode: 1, firstOwn: 4 },
    ],
  },
  window: { from: 0, limit: 1000, next: null },
  nodes: [
    node(0, null, 'system', 'You solve sums.'),
    node(1, 0, 'user', 'What is 2 + 2?\u001b[2J\nThink.', { tokens: null }),
    node(2, 1, 'assistant', '', { toolCalls: [{ id: 'c1', name: 'add', arguments: '{"a":2}' }], policyVersion: 3 }),
    node(3, 2, 'tool', '4'),
    node(4, 1, 'assistant', 'Four, I am sure of it, since two and two are four and nothing else in the world of sums.', { forkReason: 'resample', policyVersion: 4 }),
    node(5, 4, 'user', 'ok'),
  ],
  calls: [
    { index: 0, node: 2, model: 'm-1', finishReason: 'tool_calls', promptTokens: 30, completionTokens: 5, policyVersion: 3, started: 0, ended: 1, retryOf: null, errorType: null, errorMessage: null },
    { index: 1, node: null, model: 'm-1', finishReason: null, promptTokens: null, completionTokens: null, policyVersion: 3, started: 0, ended: 1, retryOf: null, errorType: 'timeout', errorMessage: 'no answer in 30 s' },
    { index: 2, node: 4, model: 'm-1', finishReason: 'stop', promptTokens: 30, completionTokens: 5, policyVersion: 4, started: 0, ended: 1, retryOf: 1, errorType: null, errorMessage: null },
  ],
  tools: [],
  links: [{ fromTrace: 't1', fromNode: 2, toTrace: 't2', toNode: null, type: 'subagent_call' }],
  rewards: [
    { scope: 'trace', node: null, name: 'exact', score: 1, weight: 1, source: 'code' },
    { scope: 'node', node: 4, name: 'style', score: { $float: 'NaN' }, weight: 0.25, source: 'model' },
    { scope: 'rollout', node: null, name: 'human', score: null, weight: null, source: null },
  ],
  errors: [{ scope: 'trace', node: 3, type: 'ToolError', message: 'division by zero', statusCode: null }],
  cut: [],
}; // prettier-ignore

test('a forked trace is drawn with its branches, reasons, calls, rewards and errors', () => {
  assert.deepEqual(renderTrace(answer, 90, plain), [
    'trace t1  rollout r1  run demo',
    'solver  m-1  ok  stop: answered  reward 1.25  6 nodes  3 calls  2 branches  120 tokens in  40 out',
    '',
    '#0 system         10t  You solve sums.',
    '#1 user             -  What is 2 + 2?\\e[2J\\nThink.',
    '├─ #2 assistant ●    30t  v3 call 0:tool_calls → add({"a":2})',
    '│  #3 tool           40t  4',
    '│  └ branch 3: 4 nodes, 100 tokens, forked at #1',
    '└─ #4 assistant ●    50t  fork: resample v4 call 2:stop retry of 1 Four, I am sure of it…',
    '   #5 user           60t  ok',
    '   └ branch 5: 4 nodes, 140 tokens, forked at #1',
    '',
    'rewards',
    '  exact 1  trace, code',
    '  style NaN × 0.25  node #4, model',
    '  human not scored  rollout',
    '',
    'links',
    '  t1#2 → t2  subagent_call',
    '',
    'failed calls',
    '  call 1: timeout no answer in 30 s',
    '',
    'errors',
    '  ToolError at node 3 division by zero',
  ]);
});

test('colours add nothing but colours', () => {
  // oxlint-disable-next-line no-control-regex
  const stripped = renderTrace(answer, 90, colours).map((line) => line.replaceAll(/\u001b\[\d+m/g, ''));
  assert.deepEqual(stripped, renderTrace(answer, 90, plain));
});

test('a window of an open trace says what is around it', () => {
  const part: TraceAnswer = {
    ...answer,
    open: true,
    summary: null,
    nodes: answer.nodes.slice(4, 5),
    calls: [],
    rewards: [],
    links: [],
    errors: [],
    window: { from: 4, limit: 1, next: 5 },
    graph: { ...answer.graph, orphans: [] },
  };
  assert.deepEqual(renderTrace(part, 60, plain), [
    'trace t1  rollout r1  run demo',
    'still open',
    '',
    '#4 assistant ●    50t  fork: resample below #1 v4 Four, I am sure…',
    '',
    'nodes 4 to 4 of 6; go on with --from 5',
  ]);
});

test('a chain of 100,000 nodes is drawn without recursion', () => {
  const nodes = Array.from({ length: 100_000 }, (_, index) => node(index, index === 0 ? null : index - 1, 'user', 'x'));
  const long = { ...answer, nodes, graph: { ...answer.graph, branchCount: 1, branches: [] } };
  assert.ok(renderTrace(long, 80, plain).length > 100_000);
});

test('token streams: sampled tokens with their log-probability', () => {
  const lines = renderTokens(
    {
      project: 'default', run: 'demo', rollout: 'r1', trace: 't1', asOf: '9~', leaf: 2, path: [0, 2], tokens: 5, sampledTokens: 2, encoding: 'arrays',
      ids: [1, 2, 3, 4, 5], mask: [0, 0, 0, 1, 1], logprobs: [-0.5, { $float: '-Infinity' }],
      segments: [{ node: 0, tokens: 2, sampledTokens: 0, logprobs: 0 }, { node: 2, tokens: 3, sampledTokens: 2, logprobs: 2 }],
    },
    plain,
  ); // prettier-ignore
  assert.deepEqual(lines, [
    'branch 2  2 nodes  5 tokens  2 sampled',
    '#0  2 tokens, 0 sampled',
    '  1 2',
    '#2  3 tokens, 2 sampled',
    '  3 4:-0.5 5:-Infinity',
  ]);
});
