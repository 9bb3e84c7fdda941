/** A typed client of the REST API: paths, parameters, answers and errors as the server's own OpenAPI document states them. */
import createClient, { type FetchOptions, type FetchResponse, type ParseAs } from 'openapi-fetch';
import type { paths } from './api-types.ts';

export type ClientOptions = {
  /** Where the server is, such as `http://127.0.0.1:7070`. */
  readonly url: string;
  /** API key; a server on loopback may need none. */
  readonly key?: string;
  readonly fetch?: (request: Request) => Promise<Response>;
};

type Method = 'get' | 'put' | 'post' | 'delete';
type PathsWith<M extends Method> = { [Path in keyof paths]: paths[Path][M] extends { responses: object } ? Path : never }[keyof paths];
type Operation<Path extends keyof paths, M extends Method> = paths[Path][M] extends infer One extends { responses: object } ? One : never;
type Init<One, As> = Omit<FetchOptions<One>, 'parseAs'> & { readonly parseAs?: As };
/** openapi-fetch infers what it is given, which lets misspelt parameters pass; here the path alone decides what may be given. */
type Call<M extends Method> = <Path extends PathsWith<M>, As extends ParseAs = 'json'>(
  path: Path,
  ...init: object extends Init<Operation<Path, M>, As> ? [init?: Init<Operation<Path, M>, As>] : [init: Init<Operation<Path, M>, As>]
) => Promise<FetchResponse<Operation<Path, M>, { parseAs: As }, 'application/json'>>;

export type TapedeckClient = {
  readonly GET: Call<'get'>;
  readonly PUT: Call<'put'>;
  readonly POST: Call<'post'>;
  readonly DELETE: Call<'delete'>;
};

/**
 * `client.GET(path, {params})` and so on for every path of the API. A call answers `{data, response}` or `{error, response}` and does not throw for a status: `error` is the body that the
 * server sent, `{error: {code, message, details?}}`. It throws what `fetch` throws: no connection, or the reason of `signal`.
 */
export function connectClient({ url, key, fetch }: ClientOptions): TapedeckClient {
  return createClient<paths, 'application/json'>({
    baseUrl: url.replace(/\/+$/, ''),
    ...(key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } }),
    ...(fetch === undefined ? {} : { fetch }),
  }) as unknown as TapedeckClient;
}
