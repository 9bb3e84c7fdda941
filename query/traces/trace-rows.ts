/** Rows of the fixed queries (trace-queries.ts) as entries of an answer. 64-bit integers come as strings; ours are far below 2^53. */
import { storedFloat } from './json-float.ts';
import type { TraceCall, TraceError, TraceLink, TraceNode, TraceReward, TraceSummary, TraceTool } from './trace-answer.ts';

type Int = string | number | null;
type Float = number | string | null;
type Text = string | null;

function int(value: Int): number | null {
  return value === null ? null : Number(value);
}

function sure(value: Int): number {
  return Number(value ?? 0);
}

export function summaryOf(row: {
  agent: Text; model: Text; trainable: boolean | null; ok: boolean | null; stop_condition: Text; truncated: boolean | null; reward: Float;
  turns: Int; calls: Int; input_tokens: Int; output_tokens: Int; started: Int; ended: Int;
}): TraceSummary {
  return {
    agent: row.agent,
    model: row.model,
    trainable: row.trainable,
    ok: row.ok,
    stopCondition: row.stop_condition,
    truncated: row.truncated,
    reward: storedFloat(row.reward),
    turns: sure(row.turns),
    calls: sure(row.calls),
    inputTokens: int(row.input_tokens),
    outputTokens: int(row.output_tokens),
    started: int(row.started),
    ended: int(row.ended),
  };
} // prettier-ignore

export function nodeOf(
  row: {
    index: number; parent: number | null; role: string; sampled: boolean; tokens: Int; sampled_tokens: Int; text: Text; reasoning: Text;
    tool_calls: TraceNode['toolCalls']; fork_reason: Text; call: number | null; policy_version: Int; time: Int; longest: Int;
  },
  chars: number | undefined,
): TraceNode {
  return {
    index: row.index,
    parent: row.parent,
    role: row.role,
    sampled: row.sampled,
    tokens: int(row.tokens),
    sampledTokens: int(row.sampled_tokens),
    text: row.text,
    reasoning: row.reasoning,
    toolCalls: row.tool_calls,
    forkReason: row.fork_reason,
    call: row.call,
    policyVersion: int(row.policy_version),
    time: sure(row.time),
    cut: chars !== undefined && sure(row.longest) > chars,
  };
} // prettier-ignore

export function callOf(row: {
  index: number; node: number | null; model: Text; finish_reason: Text; prompt_tokens: Int; completion_tokens: Int; policy_version: Int;
  started: Int; ended: Int; retry_of: number | null; error_type: Text; error_message: Text;
}): TraceCall {
  return {
    index: row.index,
    node: row.node,
    model: row.model,
    finishReason: row.finish_reason,
    promptTokens: int(row.prompt_tokens),
    completionTokens: int(row.completion_tokens),
    policyVersion: int(row.policy_version),
    started: int(row.started),
    ended: int(row.ended),
    retryOf: row.retry_of,
    errorType: row.error_type,
    errorMessage: row.error_message,
  };
} // prettier-ignore

export function toolOf(row: {
  tool_call_id: string; name: string; node: number | null; result_node: number | null; started: Int; ended: Int; error: Text;
}): TraceTool {
  return {
    toolCallId: row.tool_call_id,
    name: row.name,
    node: row.node,
    resultNode: row.result_node,
    started: int(row.started),
    ended: int(row.ended),
    error: row.error,
  };
} // prettier-ignore

export function linkOf(row: {
  from_trace: string;
  from_node: number | null;
  to_trace: string;
  to_node: number | null;
  type: string;
}): TraceLink {
  return { fromTrace: row.from_trace, fromNode: row.from_node, toTrace: row.to_trace, toNode: row.to_node, type: row.type };
}

export function rewardOf(row: {
  scope: string;
  node: number | null;
  name: string;
  score: Float;
  weight: Float;
  source: Text;
}): TraceReward {
  return {
    scope: row.scope,
    node: row.node,
    name: row.name,
    score: storedFloat(row.score),
    weight: storedFloat(row.weight),
    source: row.source,
  };
}

export function errorOf(row: { scope: string; node: number | null; type: string; message: string; status_code: Int }): TraceError {
  return { scope: row.scope, node: row.node, type: row.type, message: row.message, statusCode: int(row.status_code) };
}
