/** What is fixed for a trace when its key is made: model, upstream, forced sampling values, limits. Kept in the `extra.gateway` of its events, so that the log is enough to go on. */
import { z } from 'zod';
import { anything, name, record } from '../../../events/fields.ts';

const whole = z.int().positive();

/** All of the trace that the key names, not of its whole rollout: a user simulator's turns do not use up those of the policy. */
export const limitsSchema = z.strictObject({
  turns: whole.optional().meta({ description: 'answers' }),
  inputTokens: whole.optional().meta({ description: 'prompt tokens, summed over calls' }),
  outputTokens: whole.optional().meta({ description: 'completion tokens, summed over calls' }),
  totalTokens: whole.optional().meta({ description: 'prompt and completion tokens' }),
  wallSeconds: z.number().positive().optional().meta({ description: 'since the trace was started' }),
  cost: z.number().positive().optional().meta({ description: 'US dollars, as far as the cost of its calls is known' }),
});
export type Limits = z.output<typeof limitsSchema>;
export type LimitName = keyof Limits;

/** Sampling values are forced on every call under the names of the harness's dialect. */
export const agentSchema = z.strictObject({
  name: name.optional(),
  model: name.optional().meta({ description: 'as it should be called in views; default: the model that is forced' }),
  trainable: z.boolean().optional(),
  config: anything.optional(),
});

export const traceSettingsSchema = z.strictObject({
  agent: agentSchema.optional(),
  runtime: record
    .optional()
    .meta({ description: 'harness, versions, host: kept with the trace; `harness` is the name that statistics go by' }),
  model: name.optional().meta({ description: 'forced on every call; default: what the harness asks for' }),
  upstream: name.optional().meta({ description: 'name of the upstream to use; default: any that serves the model' }),
  sampling: record.optional().meta({ description: 'forced on every call: temperature, top_p, max_tokens …' }),
  limits: limitsSchema.optional(),
});
export type TraceSettings = z.output<typeof traceSettingsSchema>;

/** What a trace's calls go by; read back from its `trace.started`. */
export type CallSettings = {
  readonly model: string | null;
  readonly upstream: string | null;
  readonly sampling: Readonly<Record<string, unknown>>;
  readonly limits: Limits;
};

/** `value` is `extra.gateway`; the log may hold what other versions wrote, so anything unreadable counts as not set. */
export function callSettingsOf(value: unknown): CallSettings {
  const given = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  const parsed = traceSettingsSchema.omit({ agent: true, runtime: true }).safeParse({
    model: given['model'],
    upstream: given['upstream'],
    sampling: given['sampling'],
    limits: given['limits'],
  });
  const { model, upstream, sampling, limits } = parsed.success ? parsed.data : {};
  return { model: model ?? null, upstream: upstream ?? null, sampling: sampling ?? {}, limits: limits ?? {} };
}

/** What `extra.gateway` holds of them: only what was given. */
export function storedSettings({ model, upstream, sampling, limits }: TraceSettings): Record<string, unknown> {
  return {
    ...(model !== undefined && { model }),
    ...(upstream !== undefined && { upstream }),
    ...(sampling !== undefined && { sampling }),
    ...(limits !== undefined && { limits }),
  };
}
