/**
 * ATIF up to v1.7 as its reader checks it (models that forbid unknown fields), written from Harbor's RFC 0001 and NVIDIA/NeMo-Agent-Toolkit `packages/nvidia_nat_atif`, not
 * from the export. Sub-agents' trajectories are left open.
 */
import { z } from 'zod';

const bag = z.record(z.string(), z.unknown()).nullish();
const count = z.int().nonnegative().nullish();
const part = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  z.strictObject({
    type: z.literal('image'),
    source: z.strictObject({ media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']), path: z.string() }),
  }),
]);
const content = z.union([z.string(), z.array(part)]);
const ids = z.array(z.int().nonnegative()).nullish();
const toolCall = z.strictObject({
  tool_call_id: z.string(),
  function_name: z.string(),
  arguments: z.record(z.string(), z.unknown()),
  extra: bag,
});
const result = z.strictObject({
  source_call_id: z.string().nullish(),
  content: content.nullish(),
  subagent_trajectory_ref: z.array(z.unknown()).nullish(),
  extra: bag,
});
const metrics = z.strictObject({
  prompt_tokens: count,
  completion_tokens: count,
  cached_tokens: count,
  cost_usd: z.number().nullish(),
  prompt_token_ids: ids,
  completion_token_ids: ids,
  logprobs: z.array(z.number()).nullish(),
  extra: bag,
});
const step = z
  .strictObject({
    step_id: z.int().positive(),
    timestamp: z.iso.datetime({ offset: true, local: true }).nullish(),
    source: z.enum(['system', 'user', 'agent']),
    model_name: z.string().nullish(),
    reasoning_effort: z.union([z.string(), z.number()]).nullish(),
    message: content,
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(toolCall).nullish(),
    observation: z.strictObject({ results: z.array(result) }).nullish(),
    metrics: metrics.nullish(),
    is_copied_context: z.boolean().nullish(),
    llm_call_count: count,
    extra: bag,
  })
  .superRefine((value, context) => {
    const agentOnly = ['model_name', 'reasoning_effort', 'reasoning_content', 'tool_calls', 'metrics'] as const;
    for (const name of agentOnly)
      if (value.source !== 'agent' && value[name] !== undefined) context.addIssue(`${name} on a step of ${value.source}`);
    const calls = new Set((value.tool_calls ?? []).map((call) => call.tool_call_id));
    for (const { source_call_id: id } of value.observation?.results ?? [])
      if (typeof id === 'string' && !calls.has(id)) context.addIssue(`source_call_id ${id} is no call of the step`);
  });
export const atifTrajectory = z.strictObject({
  schema_version: z.string().regex(/^ATIF-v1\.[0-7]$/), session_id: z.string().nullish(), trajectory_id: z.string().nullish(),
  agent: z.strictObject({ name: z.string(), version: z.string(), model_name: z.string().nullish(), tool_definitions: z.array(z.record(z.string(), z.unknown())).nullish(), extra: bag }),
  steps: z.array(step).min(1), notes: z.string().nullish(),
  final_metrics: z.strictObject({
    total_prompt_tokens: count, total_completion_tokens: count, total_cached_tokens: count, total_cost_usd: z.number().nullish(), total_steps: count, extra: bag,
  }).nullish(),
  continued_trajectory_ref: z.string().nullish(), subagent_trajectories: z.array(z.unknown()).nullish(), extra: bag,
}).superRefine((value, context) => {
  value.steps.forEach((each, i) => { if (each.step_id !== i + 1) context.addIssue(`step_id ${each.step_id} at place ${i + 1}`); });
}); // prettier-ignore
