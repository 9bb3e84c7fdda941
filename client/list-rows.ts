/** A whole list, row by row: pages follow each other by cursor, so rows that arrive meanwhile double nothing and hide nothing. */
import type { paths } from './api-types.ts';
import type { TapedeckClient } from './tapedeck-client.ts';

type Answer<Path extends keyof paths> = paths[Path] extends {
  get: { responses: { 200: { content: { 'application/json': infer Body } } } };
}
  ? Body
  : never;
/** Paths whose answer is a page of rows. */
export type ListPath = {
  [Path in keyof paths]: Answer<Path> extends { readonly rows: readonly unknown[]; readonly next: string | null } ? Path : never;
}[keyof paths];
/** A row of a list, such as `Row<'/v1/rollouts'>`. */
export type Row<Path extends ListPath> = Answer<Path> extends { readonly rows: readonly (infer One)[] } ? One : never;
/** Conditions and settings of a list, such as `ListQuery<'/v1/rollouts'>`. */
export type ListQuery<Path extends ListPath> = paths[Path] extends { get: { parameters: { query?: infer Query } } }
  ? Omit<NonNullable<Query>, 'cursor'>
  : never;

/** What a server answered instead of rows. */
export class ListError extends Error {
  readonly code: string;
  readonly status: number;
  readonly details: { readonly [key: string]: unknown };

  constructor(status: number, { code, message, details = {} }: Failure['error']) {
    super(message);
    this.name = 'ListError';
    this.status = status;
    this.code = code;
    this.details = details;
  }
}
type Failure = {
  readonly error: { readonly code: string; readonly message: string; readonly details?: { readonly [key: string]: unknown } };
};
type Page = { readonly rows: readonly unknown[]; readonly next: string | null };
type GetPage = (path: string, init: object) => Promise<{ readonly data?: Page; readonly error?: Failure; readonly response: Response }>;

/** All rows of a list that fit `query`; `query.limit` is the size of a page. Throws `ListError`, and what `fetch` throws. */
export async function* listRows<Path extends ListPath>(
  client: TapedeckClient,
  path: Path,
  query: ListQuery<Path>,
  signal?: AbortSignal,
): AsyncGenerator<Row<Path>, void, undefined> {
  // one call for every list: the types above are what ties path, query and row together
  const get = client.GET as unknown as GetPage;
  for (let cursor: string | null | undefined; cursor !== null;) {
    const { data, error, response } = await get(path, { params: { query: { ...query, cursor } }, ...(signal === undefined ? {} : { signal }) });
    if (data === undefined) throw new ListError(response.status, error?.error ?? { code: 'internal', message: `the server answered ${response.status}` });
    yield* data.rows as readonly Row<Path>[];
    cursor = data.next;
  }
} // prettier-ignore
