/** Notes the bytes of every answer as they come over the wire, beside the client library that reads them. */
export type Heard = { readonly asked: string; readonly status: number; readonly body: string; readonly isBroken: boolean };

export function listeningFetch(heard: Heard[]): typeof fetch {
  return async (url, init) => {
    const response = await fetch(url, init);
    const asked = typeof init?.body === 'string' ? init.body : '';
    if (response.body === null) return response;
    const chunks: Uint8Array[] = [];
    const note = (isBroken: boolean): void => {
      heard.push({ asked, status: response.status, body: Buffer.concat(chunks).toString('base64'), isBroken });
    };
    const reader = response.body.getReader();
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (done) {
            note(false);
            controller.close();
            return;
          }
          chunks.push(value);
          controller.enqueue(value);
        } catch (error) {
          note(true);
          controller.error(error);
        }
      },
      async cancel(reason) {
        await reader.cancel(reason);
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
}
