/** call.recorded and tool.recorded. */
import type { Block } from './block.ts';
import { jsonText } from './json-text.ts';
import { NO_NODE } from './position.ts';
import { keysOf, positionOf, type StoredOf } from './stored-event.ts';

export function projectCall(stored: StoredOf<'call.recorded'>, out: Block): void {
  const { event, hash } = stored;
  const { data } = event;
  const key = { ...keysOf(event), ...positionOf(stored), index: data.index };
  const { usage, time, error } = data;
  out.calls.add({
    ...key,
    node: data.node,
    model: data.model,
    endpoint: data.endpoint,
    dialect: data.dialect,
    sampling: jsonText(data.sampling),
    request_digest: data.requestDigest,
    finish_reason: data.finishReason,
    prompt_tokens: usage?.promptTokens,
    completion_tokens: usage?.completionTokens,
    cached_tokens: usage?.cachedTokens,
    reasoning_tokens: usage?.reasoningTokens,
    cost: usage?.cost,
    started: time?.start,
    first_token: data.firstToken,
    ended: time?.end,
    policy_version: data.policyVersion,
    policy_version_end: data.policyVersionEnd,
    logprobs_mode: data.logprobsMode,
    tokenizer_hash: data.tokenizerHash,
    template_hash: data.templateHash,
    stream: data.stream,
    extends: data.extends,
    drift: jsonText(data.drift),
    retry_of: data.retryOf,
    error_type: error?.type,
    error_status: error?.statusCode,
    error_message: error?.message,
    time: event.time,
    _hash: hash.data,
  });
  // the exact bytes of an answer are for replays, which read the log
  const { told } = data;
  out.callPayloads.add({ ...key, data: jsonText(told ? { ...data, told: { ...told, pieces: undefined } } : data) ?? '' });
}

export function projectTool(stored: StoredOf<'tool.recorded'>, out: Block): void {
  const { event, hash } = stored;
  const { data } = event;
  out.tools.add({
    ...keysOf(event),
    ...positionOf(stored),
    tool_call_id: data.toolCallId,
    _node: data.node ?? NO_NODE,
    name: data.name,
    result_node: data.resultNode,
    started: data.time?.start,
    ended: data.time?.end,
    error_type: data.error?.type,
    error_status: data.error?.statusCode,
    error: data.error?.message,
    extra: jsonText(data.extra),
    time: event.time,
    _hash: hash.data,
  });
}
