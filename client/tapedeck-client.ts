/** A typed client of the REST API: paths, parameters, answers and errors as the server's own OpenAPI document states them. */
import createClient, { type Client } from 'openapi-fetch';
import type { paths } from './api-types.ts';

export type ClientOptions = {
  /** Where the server is, such as `http://127.0.0.1:7070`. */
  readonly url: string;
  /** API key; a server on loopback may need none. */
  readonly key?: string;
  readonly fetch?: (request: Request) => Promise<Response>;
};

export type TapedeckClient = Client<paths, 'application/json'>;

/**
 * `client.GET(path, {params})` and so on for every path of the API. A call answers `{data, response}` or `{error, response}` and does not throw for a status: `error` is the body that the
 * server sent, `{error: {code, message, details?}}`. It throws what `fetch` throws: no connection, or the reason of `signal`.
 */
export function connectClient({ url, key, fetch }: ClientOptions): TapedeckClient {
  return createClient<paths, 'application/json'>({
    baseUrl: url.replace(/\/+$/, ''),
    ...(key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } }),
    ...(fetch === undefined ? {} : { fetch }),
  });
}
