/** Sends a request on to a model server, and its answer back as it comes. */
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { TapedeckError } from '../../../base/errors.ts';

export type LiveTarget = {
  /** Root of the server: `/v1/…` lies below it. */
  readonly url: string;
  readonly key: string;
  /** Changes the body that is sent; the identity when nothing is edited. */
  readonly edit: (body: Buffer) => Buffer;
};

const NOT_SENT_ON: ReadonlySet<string> = new Set([
  'host', 'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'authorization', 'x-api-key', 'accept-encoding', 'expect', 'cookie', 'te', 'upgrade',
]); // prettier-ignore
const NOT_SENT_BACK: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'content-encoding']);

export type LiveRequest = { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: Buffer };

/** Resolves when the answer is over. Throws `upstream_unavailable` while nothing was answered; a stream that breaks is broken for the client too. */
export async function sendLive(
  target: LiveTarget,
  request: LiveRequest,
  response: ServerResponse,
  marks: Readonly<Record<string, string>>,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (value !== undefined && !NOT_SENT_ON.has(name)) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  headers['authorization'] = `Bearer ${target.key}`;
  headers['accept-encoding'] = 'identity';
  let answer: Response;
  try {
    answer = await fetch(new URL(request.path, target.url), {
      method: 'POST',
      headers,
      body: new Uint8Array(target.edit(request.body)),
      signal: gone.signal,
    });
  } catch (cause) {
    if (gone.signal.aborted) return;
    if (cause instanceof TapedeckError) throw cause;
    throw new TapedeckError('upstream_unavailable', `${target.url} cannot be reached`, { cause });
  }
  const back: Record<string, string> = {};
  for (const [name, value] of answer.headers) if (!NOT_SENT_BACK.has(name)) back[name] = value;
  response.writeHead(answer.status, { ...back, ...marks });
  try {
    for await (const chunk of answer.body ?? []) {
      if (!response.write(chunk)) await new Promise<void>((resolve) => void response.once('drain', resolve).once('close', resolve));
    }
    response.end();
  } catch {
    response.destroy();
  }
}
