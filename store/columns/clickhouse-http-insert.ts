import { request as httpRequest } from 'node:http';
import type { Agent } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { answerError, parseException, storeError } from './clickhouse-http-errors.ts';

const MAX_ANSWER_BYTES = 64 * 1024;

/**
 * POSTs `body`, whose pieces follow each other, with its length known: no chunked framing, no copy. `url` holds the statement and its settings as parameters.
 * Resolves when ClickHouse has answered 200; rejects with the ClickHouse error otherwise.
 */
export function postBody(
  url: URL,
  body: readonly Uint8Array[],
  options: { agent: Agent; headers: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const request = send(
      url,
      {
        method: 'POST',
        agent: options.agent,
        signal: options.signal,
        headers: {
          ...options.headers,
          'content-length': String(body.reduce((sum, piece) => sum + piece.length, 0)),
          'content-type': 'application/octet-stream',
        },
      },
      (response) => {
        const parts: Buffer[] = [];
        let size = 0;
        response.on('data', (chunk: Buffer) => {
          if (size < MAX_ANSWER_BYTES) parts.push(chunk);
          size += chunk.length;
        });
        response.on('error', reject);
        response.on('end', () => {
          const body = Buffer.concat(parts);
          // A status of 200 was sent before an insert could fail: its exception stands in the body.
          const exception = parseException(body.toString('utf8'));
          if (exception) reject(storeError(exception, 'write'));
          else if (response.statusCode === 200) resolve();
          else reject(answerError(body, response.statusCode ?? 0, 'write'));
        });
      },
    );
    request.on('error', reject);
    request.cork();
    for (const piece of body) request.write(piece);
    request.uncork();
    request.end();
  });
}
