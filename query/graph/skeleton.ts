/** The skeleton of a trace's graph by index range, as an Arrow stream made by the store itself: what an overview draws before any text is read. */
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { BOUND_FACTS } from '../positions/before-position.ts';
import { locateTrace, optionsOf, type TraceRequest } from '../traces/read-trace.ts';

export type SkeletonRequest = TraceRequest & { readonly from: number; readonly to: number };

/** What the bits of `flags` say. */
export const SKELETON_FLAGS = { sampled: 1, hasTokens: 2, partial: 4, hasToolCalls: 8, hasReasoning: 16 } as const;

/** Uncompressed, plain strings: any reader of Arrow can read it. */
export const ARROW_SETTINGS = { output_format_arrow_compression_method: 'none', output_format_arrow_string_as_string: 1 } as const;

const SKELETON =
  'SELECT index, parent, role, ' +
  `toUInt8(toUInt8(sampled) + if(isNull(tokens), 0, ${SKELETON_FLAGS.hasTokens}) + if(ifNull(partial, false), ${SKELETON_FLAGS.partial}, 0) + ` +
  `if(empty(tool_call_ids), 0, ${SKELETON_FLAGS.hasToolCalls}) + if(isNull(_reasoning_at), 0, ${SKELETON_FLAGS.hasReasoning})) AS flags, ` +
  'toUInt32(tokens) AS tokens, toUInt32(sampled_tokens) AS sampled_tokens, policy_version, call, fork_reason, toUnixTimestamp64Micro(time) AS time ' +
  'FROM node_payloads FINAL WHERE project = {project:String} AND run = {run:String} AND rollout = {rollout:String} AND trace = {trace:String} ' +
  `AND index >= {from:UInt32} AND index < {to:UInt32} AND ${BOUND_FACTS.before('')} ORDER BY index`;

/** Nodes with from <= index < to. Columns: index, parent, role, flags (SKELETON_FLAGS), tokens, sampled_tokens, policy_version, call, fork_reason, time (µs). */
export async function readSkeletonArrow(store: ColumnStore, request: SkeletonRequest): Promise<AsyncIterable<Uint8Array>> {
  const place = await locateTrace(store, request);
  const options = optionsOf(request, place);
  const { body } = await store.stream(SKELETON, 'ArrowStream', {
    ...options,
    settings: { ...options.settings, ...ARROW_SETTINGS },
    params: { ...options.params, from: request.from, to: request.to },
  });
  return body;
}
