/** One POST over HTTP. By way of node:http, which costs a third of what `fetch` costs for bodies of this size; or by a `fetch` that the program gives. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';

export type Reply = { readonly status: number; readonly body: string; readonly retryAfter: string | null };
/** Throws what the network threw, or the reason of the signal. Redirects are answers. */
export type Transport = (target: URL, headers: Readonly<Record<string, string>>, body: Uint8Array, signal: AbortSignal) => Promise<Reply>;

/** Answers are short; one that is longer comes from somebody else. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

export function nodeTransport(): Transport {
  // idle connections keep no process running
  const plain = new HttpAgent({ keepAlive: true, maxSockets: 8 });
  const secure = new HttpsAgent({ keepAlive: true, maxSockets: 8 });
  return (target, headers, body, signal) =>
    new Promise((resolve, reject) => {
      const isSecure = target.protocol === 'https:';
      const options = { method: 'POST', headers: { ...headers, 'content-length': String(body.length) }, agent: isSecure ? secure : plain };
      const request = (isSecure ? httpsRequest : httpRequest)(target, options, (response) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > MAX_ANSWER_BYTES) request.destroy(new Error(`an answer of more than ${MAX_ANSWER_BYTES} bytes`));
        });
        response.on('error', fail);
        response.on('end', () => {
          signal.removeEventListener('abort', onAbort);
          const retryAfter = response.headers['retry-after'] ?? null;
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8'), retryAfter });
        });
      });
      const fail = (error: unknown): void => {
        signal.removeEventListener('abort', onAbort);
        reject(error instanceof Error ? error : new Error(String(error)));
      };
      const onAbort = (): void => void request.destroy(signal.reason instanceof Error ? signal.reason : new Error('aborted'));
      request.on('error', fail);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
      request.end(body);
    });
}

export function fetchTransport(send: typeof fetch): Transport {
  return async (target, headers, body, signal) => {
    const response = await send(target, { method: 'POST', headers, body: body as Uint8Array<ArrayBuffer>, signal, redirect: 'manual' });
    return { status: response.status, body: await response.text(), retryAfter: response.headers.get('retry-after') };
  };
}
