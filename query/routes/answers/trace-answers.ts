/** What the routes of one trace answer. */
import { z } from 'zod';
import type { GraphAnswer } from '../../graph/read-window.ts';
import { TOKEN_COLUMNS } from '../../tokens/token-columns.ts';
import type { BranchTokens, TraceAnswer, TraceNode, TraceSummary } from '../../traces/trace-answer.ts';
import { jsonFloat, long, position, whole } from './answer-schema.ts';

const place = { project: z.string(), run: z.string(), rollout: z.string(), trace: z.string(), asOf: position };
const time = whole.nullable().meta({ description: 'microseconds since 1970 UTC' });

const node = {
  index: whole,
  parent: whole.nullable(),
  role: z.string(),
  sampled: z.boolean(),
  tokens: whole.nullable().meta({ description: 'Null when the node has no token stream.' }),
  sampledTokens: whole.nullable(),
  text: z.string().nullable(),
  reasoning: z.string().nullable(),
  toolCalls: z.array(z.object({ id: z.string(), name: z.string(), arguments: z.string().meta({ description: 'JSON text' }) })),
  forkReason: z.string().nullable(),
  call: whole.nullable(),
  policyVersion: whole.nullable(),
  time: whole.meta({ description: 'microseconds since 1970 UTC' }),
  cut: z.boolean().meta({ description: 'True when texts were cut to the asked number of characters.' }),
};
const traceNode = z.object(node).meta({ title: 'TraceNode' }) satisfies z.ZodType<TraceNode>;

const summary = z.object({
  agent: z.string().nullable(),
  model: z.string().nullable(),
  trainable: z.boolean().nullable(),
  ok: z.boolean().nullable(),
  stopCondition: z.string().nullable(),
  truncated: z.boolean().nullable(),
  reward: jsonFloat.nullable(),
  turns: whole,
  calls: whole,
  inputTokens: whole.nullable(),
  outputTokens: whole.nullable(),
  started: time,
  ended: time,
}) satisfies z.ZodType<TraceSummary>;

const branch = z.object({
  leaf: whole,
  nodes: whole,
  tokens: whole,
  forkNode: whole.nullable().meta({ description: 'The last node shared with another branch; null when the branch shares none.' }),
  firstOwn: whole.meta({ description: 'The first node that belongs to this branch alone.' }),
});
const call = z.object({
  index: whole,
  node: whole.nullable(),
  model: z.string().nullable(),
  finishReason: z.string().nullable(),
  promptTokens: whole.nullable(),
  completionTokens: whole.nullable(),
  policyVersion: whole.nullable(),
  started: time,
  ended: time,
  retryOf: whole.nullable(),
  errorType: z.string().nullable(),
  errorMessage: z.string().nullable(),
});
const tool = z.object({
  toolCallId: z.string(),
  name: z.string(),
  node: whole.nullable(),
  resultNode: whole.nullable(),
  started: time,
  ended: time,
  error: z.string().nullable(),
});
const link = z.object({
  fromTrace: z.string(),
  fromNode: whole.nullable(),
  toTrace: z.string(),
  toNode: whole.nullable(),
  type: z.string(),
});
const reward = z.object({
  scope: z.string(),
  node: whole.nullable(),
  name: z.string(),
  score: jsonFloat.nullable(),
  weight: jsonFloat.nullable(),
  source: z.string().nullable(),
});
const traceError = z.object({
  scope: z.string(),
  node: whole.nullable(),
  type: z.string(),
  message: z.string(),
  statusCode: whole.nullable(),
});

export const traceAnswer = z
  .object({
    ...place,
    open: z.boolean().meta({ description: 'True while the trace has not ended.' }),
    summary: summary.nullable(),
    graph: z.object({
      nodes: whole,
      roots: z.array(whole),
      orphans: z.array(whole).meta({ description: 'Nodes whose parent has not arrived.' }),
      branchCount: whole,
      lastLeaf: whole.nullable(),
      branches: z.array(branch),
    }),
    window: z.object({ from: whole, limit: whole, next: whole.nullable() }),
    nodes: z.array(traceNode),
    calls: z.array(call),
    tools: z.array(tool),
    links: z.array(link),
    rewards: z.array(reward),
    errors: z.array(traceError),
    cut: z.array(z.string()).meta({ description: 'Which of the lists above hold only their first entries.' }),
  })
  .meta({ title: 'TraceAnswer' }) satisfies z.ZodType<TraceAnswer>;

export const branchTokens = z
  .object({
    ...place,
    leaf: whole,
    path: z.array(whole),
    tokens: whole,
    sampledTokens: whole,
    encoding: z.enum(['base64', 'arrays']),
    ids: z.union([z.string(), z.array(z.number())]).meta({ description: 'uint32 little-endian as base64, or numbers' }),
    mask: z.union([z.string(), z.array(z.number())]).meta({ description: '1 where sampled: uint8 as base64, or numbers' }),
    logprobs: z
      .union([z.string(), z.array(jsonFloat)])
      .meta({ description: 'One per sampled token of the nodes that have them: float32 little-endian as base64, or numbers' }),
    segments: z.array(z.object({ node: whole, tokens: whole, sampledTokens: whole, logprobs: whole })),
  })
  .meta({ title: 'BranchTokens' }) satisfies z.ZodType<BranchTokens>;

export const graphAnswer = z.object({
  ...place,
  size: whole.meta({ description: 'Nodes of the whole trace.' }),
  nodes: z.array(z.object({ ...node, children: whole })),
  next: whole.nullable().meta({ description: '`after` for children, the node of the next stretch of a path; null at the end.' }),
}) satisfies z.ZodType<GraphAnswer>;

const cells = z.array(z.union([jsonFloat, long, z.null()]));
export const tokensAnswer = z.object({
  ...place,
  leaf: whole,
  tokens: whole.meta({ description: 'Tokens of the whole branch.' }),
  from: whole,
  to: whole,
  segments: z.array(z.object({ node: whole, from: whole, to: whole })),
  annotation: z.object({ step: whole.nullable(), feed: z.string().nullable(), alignments: z.record(z.string(), z.string()) }).nullable(),
  columns: z.object(Object.fromEntries(TOKEN_COLUMNS.map((name) => [name, cells.optional()]))),
});
