/** Clients whose calls are recorded in this process, without a gateway. */
import { TapedeckError } from '../../base/errors.ts';
import { recordingFetch, type RecordingOptions } from './recording-fetch.ts';

type Wrappable = { withOptions(options: { fetch: typeof fetch }): unknown };

/** The client of the package `openai` (5 or later): chat completions and responses, streamed or not. The client given stays as it is. */
export function wrapOpenAI<C extends Wrappable>(client: C, options: RecordingOptions = {}): C {
  return wrapped(client, 'wrapOpenAI', options);
}

/** The client of the package `@anthropic-ai/sdk`: messages, streamed or not. The client given stays as it is. */
export function wrapAnthropic<C extends Wrappable>(client: C, options: RecordingOptions = {}): C {
  return wrapped(client, 'wrapAnthropic', options);
}

function wrapped<C extends Wrappable>(client: C, name: string, options: RecordingOptions): C {
  if (typeof client.withOptions !== 'function')
    throw new TapedeckError(
      'usage',
      `${name} needs a client with withOptions: a newer version of its package, or give its constructor recordingFetch() as fetch`,
    );
  // the client's own fetch is a property of every version we know, though not of its types
  const { fetch: own } = client as { fetch?: unknown };
  const base = typeof own === 'function' ? (own as typeof fetch) : fetch;
  return client.withOptions({ fetch: recordingFetch((...args) => base(...args), options) }) as C;
}
