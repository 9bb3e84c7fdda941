/** Which path is served by which route, per kind of server. */
import { sendJson, type Call } from './answer.ts';
import { chatRoute } from './chat-route.ts';
import { completionsRoute, embeddingsRoute } from './completions-route.ts';
import type { EngineKind } from './engine-state.ts';
import { anthropicError, openaiError } from './errors.ts';
import { detokenizeRoute, generateRoute, tokenizeRoute } from './generate-route.ts';
import type { Refusal } from './generation.ts';
import { countTokensRoute, messagesRoute } from './messages-route.ts';
import { responsesRoute } from './responses-route.ts';
import { sglangRoute } from './sglang-route.ts';

type Body = Readonly<Record<string, unknown>>;
type Route = (call: Call, body: Body) => Promise<void>;

const ALL: readonly EngineKind[] = ['vllm', 'sglang', 'openai', 'anthropic'];
const ROUTES: Readonly<Record<string, { readonly kinds: readonly EngineKind[]; readonly serve: Route }>> = {
  'POST /v1/chat/completions': { kinds: ['vllm', 'sglang', 'openai'], serve: chatRoute },
  'POST /v1/completions': { kinds: ['vllm', 'sglang', 'openai'], serve: completionsRoute },
  'POST /v1/embeddings': { kinds: ['vllm', 'sglang', 'openai'], serve: embeddingsRoute },
  'POST /v1/responses': { kinds: ['vllm', 'openai'], serve: responsesRoute },
  'POST /v1/messages': { kinds: ['vllm', 'anthropic'], serve: messagesRoute },
  'POST /v1/messages/count_tokens': { kinds: ['vllm', 'anthropic'], serve: countTokensRoute },
  'POST /inference/v1/generate': { kinds: ['vllm'], serve: generateRoute },
  'POST /tokenize': { kinds: ['vllm'], serve: tokenizeRoute },
  'POST /detokenize': { kinds: ['vllm'], serve: detokenizeRoute },
  'POST /generate': { kinds: ['sglang'], serve: sglangRoute },
  'GET /v1/models': { kinds: ALL, serve: modelsRoute },
  'GET /version': { kinds: ['vllm'], serve: (call) => sendJson(call, 200, { version: '0.24.0+fake' }) },
};

export async function dispatch(call: Call, path: string, body: unknown): Promise<void> {
  const { request, engine } = call;
  const route = ROUTES[`${request.method} ${path}`];
  if (route === undefined || !route.kinds.includes(engine.kind)) {
    return refuse(call, path, { status: 404, message: `no route ${request.method} ${path}` });
  }
  if (request.method === 'POST' && (typeof body !== 'object' || body === null || Array.isArray(body))) {
    return refuse(call, path, { status: 400, message: 'the body is not a JSON object' });
  }
  await route.serve(call, (body ?? {}) as Body);
}

/** In the shape of the dialect the path belongs to. */
export function refuse(call: Call, path: string, refusal: Refusal, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  return path.startsWith('/v1/messages') ? anthropicError(call, refusal, headers) : openaiError(call, refusal, headers);
}

function modelsRoute(call: Call): Promise<void> {
  const { engine, seen } = call;
  const created = Math.floor(seen.time / 1e6);
  if (engine.kind === 'anthropic') {
    const data = engine.models.map((m) => ({ type: 'model', id: m.id, display_name: m.id, created_at: '2026-01-01T00:00:00Z' }));
    return sendJson(call, 200, { data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null });
  }
  const own = engine.kind === 'openai' ? 'openai' : engine.kind;
  const data = engine.models.map((m) => ({
    id: m.id,
    object: 'model',
    created,
    owned_by: own,
    ...(engine.kind === 'openai' ? {} : { root: m.id, parent: null, max_model_len: m.maxModelLen }),
  }));
  return sendJson(call, 200, { object: 'list', data });
}
