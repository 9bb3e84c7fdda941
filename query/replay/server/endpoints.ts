/** The paths that harnesses call, as at the gateway, and how their dialects say an error. Pure. */
export type Route =
  | { readonly kind: 'call'; readonly dialect: string; readonly trace: string | null }
  | { readonly kind: 'models' }
  | { readonly kind: 'unrecorded'; readonly what: string }
  | { readonly kind: 'unknown' };

const CALLS: Readonly<Record<string, string>> = {
  '/v1/chat/completions': 'openai.chat',
  '/v1/responses': 'openai.responses',
  '/v1/messages': 'anthropic.messages',
  '/v1/completions': 'openai.completions',
  '/v1/embeddings': 'openai.embeddings',
  '/inference/v1/generate': 'vllm.generate',
  '/generate': 'sglang.generate',
};
/** `/t/<trace>` names a trace of the rollout; `/u/<upstream>` and `/k/<key>` are the gateway's, and mean nothing here. */
const PREFIX = /^\/(t|u|k)\/([^/]+)(?=\/)/;

export function routeOf(method: string, path: string): Route {
  let rest = path;
  let trace: string | null = null;
  for (let found = PREFIX.exec(rest); found !== null; found = PREFIX.exec(rest)) {
    if (found[1] === 't') trace = decoded(found[2] as string);
    rest = rest.slice(found[0].length);
  }
  if (method === 'GET' && rest === '/v1/models') return { kind: 'models' };
  const dialect = Object.hasOwn(CALLS, rest) ? CALLS[rest] : undefined;
  if (method === 'POST' && dialect !== undefined) return { kind: 'call', dialect, trace };
  if (rest === '/v1/messages/count_tokens')
    return { kind: 'unrecorded', what: 'counting tokens is relayed by the gateway and not recorded' };
  return { kind: 'unknown' };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The body of an error, as the dialect's clients expect it. */
export function errorBody(dialect: string, status: number, code: string, message: string): Buffer {
  const body =
    dialect === 'anthropic.messages'
      ? { type: 'error', error: { type: status === 404 ? 'not_found_error' : 'invalid_request_error', message: `${code}: ${message}` } }
      : { error: { message, type: status >= 500 ? 'server_error' : 'invalid_request_error', param: null, code } };
  return Buffer.from(JSON.stringify(body));
}
