/**
 * A response that passes through unchanged while somebody watches its bytes. Nothing is read that the caller does not read: what it does not want is not asked for, and what it
 * cancels is cancelled.
 */

export type Watcher = {
  bytes(chunk: Uint8Array): void;
  /** The body ended. */
  end(): void;
  /** It broke, or was aborted. */
  fail(error: unknown): void;
  /** The caller wants no more of it. */
  cancel(): void;
};

/** None of the watcher's methods may throw. */
export function watchResponse(response: Response, watcher: Watcher): Response {
  if (response.body === null) {
    watcher.end();
    return response;
  }
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const body = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (done) {
            watcher.end();
            controller.close();
            return;
          }
          watcher.bytes(value);
          controller.enqueue(value);
        } catch (error) {
          watcher.fail(error);
          controller.error(error);
        }
      },
      cancel: async (reason) => {
        watcher.cancel();
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  const { status, statusText, headers, url, redirected, type } = response;
  const watched = new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>, { status, statusText, headers });
  for (const [key, value] of Object.entries({ url, redirected, type })) Object.defineProperty(watched, key, { value });
  return watched;
}
