/** What is configured about each upstream (a model server or a provider), by name. Read from one setting, as JSON text or from a file; docs/gateway.md lists it. */
import { z } from 'zod';
import { fail, ok, type Result } from '../../../base/result.ts';

export const UPSTREAM_KINDS = ['vllm', 'sglang', 'openai-compatible', 'openai', 'anthropic'] as const;
export type UpstreamKind = (typeof UPSTREAM_KINDS)[number];

const ms = (fallback: number) => z.int().min(1).max(86_400_000).default(fallback);
const price = z.number().min(0).max(1e6);

const upstream = z.strictObject({
  kind: z.enum(UPSTREAM_KINDS),
  /** The server's root, or its API base (`…/v1`), as an OpenAI client takes it. */
  url: z.url({ protocol: /^https?$/ }),
  /** Names it serves, or a map from the names harnesses use to its own; missing = any name. */
  models: z.union([z.array(z.string().min(1)).min(1), z.record(z.string().min(1), z.string().min(1))]).optional(),
  /** Name of the environment variable that holds its API key. */
  apiKeyEnv: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/).optional(), // prettier-ignore
  /** Sent with every request. */
  headers: z.record(z.string(), z.string()).default({}),
  timeouts: z
    .strictObject({
      connectMs: ms(5_000),
      /** Until the status line and headers: for an answer that is not streamed, until it is generated. */
      firstByteMs: ms(600_000),
      /** Longest silence between two pieces of an answer. */
      idleMs: ms(120_000),
      totalMs: ms(3_600_000),
    })
    .prefault({}),
  /** Where an answer says which weights made it: a response header, or a field of the body or of a choice (dots go down). Missing = the last policy.published. */
  policyVersion: z.strictObject({ header: z.string().min(1).optional(), field: z.string().min(1).optional() }).default({}),
  /** Ask /tokenize for the places of the messages in the prompt (vLLM), beside the generation. */
  ladder: z.boolean().default(false),
  /** Ask for token ids and log-probabilities. Default: for vllm and sglang. */
  tokens: z.boolean().optional(),
  stopUpstreamOnDisconnect: z.boolean().default(true),
  logprobsMode: z.enum(['raw', 'processed', 'unknown']).default('unknown'),
  tokenizerHash: z.string().min(1).max(256).optional(),
  templateHash: z.string().min(1).max(256).optional(),
  /** Carries the trace id, for the engine's prefix cache. */
  sessionHeader: z.string().min(1).default('x-session-id'),
  health: z
    .strictObject({
      /** Asked with GET; null = only judged by what happens to calls. Default: /health for vllm and sglang, null for the others. */
      path: z.string().startsWith('/').nullable().optional(),
      everyMs: ms(5_000),
      timeoutMs: ms(2_000),
    })
    .prefault({}),
  /** US dollars per million tokens, for the cost of calls whose answer does not say it. `cached` defaults to `input`. */
  price: z.strictObject({ input: price, output: price, cached: price.optional() }).optional(),
});

const upstreams = z.record(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'names have letters, digits, dots, dashes, underscores'), upstream); // prettier-ignore

export type UpstreamSettings = z.output<typeof upstream> & {
  readonly name: string;
  /** Without trailing slash: `/inference/v1/generate` and `/health` hang here. */
  readonly rootUrl: string;
  /** Without trailing slash: `/chat/completions` hangs here. */
  readonly apiUrl: string;
  readonly apiKey: string | null;
  readonly asksTokens: boolean;
  readonly healthPath: string | null;
};

/**
 * Checks the configuration. `keyOf` gives the value of an environment variable. The error names every bad field at once, and never a key.
 */
export function readUpstreams(value: unknown, keyOf: (variable: string) => string | undefined): Result<readonly UpstreamSettings[]> {
  const parsed = upstreams.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'upstreams'}: ${issue.message}`);
    return fail('config_invalid', problems.join('; '));
  }
  const found: UpstreamSettings[] = [];
  for (const [name, settings] of Object.entries(parsed.data)) {
    const apiKey = settings.apiKeyEnv === undefined ? null : keyOf(settings.apiKeyEnv);
    if (apiKey === undefined || apiKey === '')
      return fail('config_invalid', `${name}.apiKeyEnv: the environment has no ${settings.apiKeyEnv}`);
    found.push({ ...settings, ...urlsOf(settings.url, settings.kind), name, apiKey, ...defaultsOf(settings) });
  }
  return ok(found);
}

function defaultsOf({ kind, tokens, health }: z.output<typeof upstream>): Pick<UpstreamSettings, 'asksTokens' | 'healthPath'> {
  const isEngine = kind === 'vllm' || kind === 'sglang';
  return { asksTokens: tokens ?? isEngine, healthPath: health.path === undefined ? (isEngine ? '/health' : null) : health.path };
}

/** `http://host:8000`, `http://host:8000/v1` and `https://host/some/openai` are all understood: only a bare root gets `/v1`. */
function urlsOf(text: string, kind: UpstreamKind): { rootUrl: string; apiUrl: string } {
  const url = new URL(text);
  const path = url.pathname.replace(/\/+$/, '');
  const isEngine = kind === 'vllm' || kind === 'sglang' || kind === 'anthropic';
  if (path.endsWith('/v1')) return { rootUrl: url.origin + path.slice(0, -3), apiUrl: url.origin + path };
  if (path === '' || isEngine) return { rootUrl: url.origin + path, apiUrl: `${url.origin}${path}/v1` };
  return { rootUrl: url.origin + path, apiUrl: url.origin + path };
}
