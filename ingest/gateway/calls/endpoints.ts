/** The endpoints that harnesses call: their dialect, where they lie at an upstream, and how they are recorded. */
import type { DialectName } from '../dialects/dialect.ts';
import type { UpstreamKind, UpstreamSettings } from '../upstreams/settings.ts';

export type Endpoint = {
  readonly dialect: DialectName;
  /** Path at the gateway, and at an upstream: behind its root, or (`v1`) behind its API base. */
  readonly path: string;
  readonly base: 'root' | 'v1';
  /** Whether its calls make nodes: from messages, from token ids, or not at all. */
  readonly nodes: 'messages' | 'tokens' | 'none';
  readonly summary: string;
};

export const ENDPOINTS = {
  'openai.chat': { dialect: 'openai.chat', path: '/chat/completions', base: 'v1', nodes: 'messages', summary: 'OpenAI Chat Completions' },
  'openai.responses': { dialect: 'openai.responses', path: '/responses', base: 'v1', nodes: 'messages', summary: 'OpenAI Responses' },
  'anthropic.messages': { dialect: 'anthropic.messages', path: '/messages', base: 'v1', nodes: 'messages', summary: 'Anthropic Messages' },
  'openai.completions': { dialect: 'openai.completions', path: '/completions', base: 'v1', nodes: 'none', summary: 'OpenAI Completions' },
  'openai.embeddings': { dialect: 'openai.embeddings', path: '/embeddings', base: 'v1', nodes: 'none', summary: 'OpenAI Embeddings' },
  'vllm.generate': {
    dialect: 'vllm.generate',
    path: '/inference/v1/generate',
    base: 'root',
    nodes: 'tokens',
    summary: "vLLM's generation from token ids",
  },
  'sglang.generate': {
    dialect: 'sglang.generate',
    path: '/generate',
    base: 'root',
    nodes: 'tokens',
    summary: "SGLang's native generation",
  },
} as const satisfies Record<DialectName, Endpoint>;

const SPOKEN: Readonly<Record<UpstreamKind, readonly DialectName[]>> = {
  vllm: ['openai.chat', 'openai.completions', 'openai.embeddings', 'vllm.generate'],
  sglang: ['openai.chat', 'openai.completions', 'openai.embeddings', 'sglang.generate'],
  'openai-compatible': ['openai.chat', 'openai.completions', 'openai.embeddings'],
  openai: ['openai.chat', 'openai.responses', 'openai.completions', 'openai.embeddings'],
  anthropic: ['anthropic.messages'],
};

/** The dialect in which a call of `asked` goes to an upstream of this kind: its own when it is spoken there, else the one it is translated to, else null. */
export function spokenAt(kind: UpstreamKind, asked: DialectName): DialectName | null {
  if (SPOKEN[kind].includes(asked)) return asked;
  if (ENDPOINTS[asked].nodes !== 'messages') return null;
  return kind === 'anthropic' ? 'anthropic.messages' : 'openai.chat';
}

export function urlAt(settings: UpstreamSettings, dialect: DialectName): string {
  const { base, path } = ENDPOINTS[dialect];
  return (base === 'root' ? settings.rootUrl : settings.apiUrl) + path;
}
